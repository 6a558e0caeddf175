"""Images per second of a short training, alone and beside busy loops, by how the threads of OpenMP wait.

`python -m benchmarks.bench_busy [--loops 2 --epochs 12 --rounds 1 --cfg mini --img 128 --batch 8]`

On the CPU: 16 built-in shapes, no data workers, no evaluation, so little but the threads is seen. What a run says at
its end counts; starting Python does not. With the defaults some three minutes, on a machine with nothing else to do.
"""

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from yolofast.dataset.shapes.made_once import make_shapes

ROOT = Path(__file__).parents[1]
WAYS = {
    "as OpenMP does by default": {"OMP_WAIT_POLICY": ""},
    "asleep (`PASSIVE`)": {"OMP_WAIT_POLICY": "PASSIVE"},
    "asleep, one thread": {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"},
}
"""An empty policy is none to OpenMP, and is not replaced by ours."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", type=int, default=2, help="busy loops, one thread each")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--cfg", default="mini")
    parser.add_argument("--img", default="128")
    parser.add_argument("--batch", default="8")
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores ({platform.machine()}), python {platform.python_version()}, load {load()} before")
    with tempfile.TemporaryDirectory() as name:
        words = [
            "train", "--data", str(make_shapes(Path(name) / "shapes", n=16)), "--cfg", asked.cfg, "--weights=",
            "--img", asked.img, "--batch-size", asked.batch, "--epochs", str(asked.epochs), "--workers", "0",
            "--notest", "--no-plots", "--noautoanchor", "--device", "cpu", "--project", f"{name}/runs",
        ]  # fmt: skip
        quiet: dict[str, list[float]] = {way: [] for way in WAYS}
        busy: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(asked.rounds):
            for way, environment in WAYS.items():
                quiet[way].append(images_per_second(words, environment))
        with busy_loops(asked.loops):
            for _ in range(asked.rounds):
                for way, environment in WAYS.items():
                    busy[way].append(images_per_second(words, environment))
    print(f"\n| threads wait | alone, img/s | beside {asked.loops} busy loops, img/s |\n|---|--:|--:|")
    for way in WAYS:
        print(f"| {way} | {statistics.median(quiet[way]):.0f} | {statistics.median(busy[way]):.0f} |")
    print(f"\nload {load()} after")


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Processes of a shell, which have nothing of Python's."""
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in loops:
            one.kill()
            one.wait()


def images_per_second(words: list[str], environment: dict[str, str]) -> float:
    without = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    command = [sys.executable, "-m", "yolofast", *words]
    done = subprocess.run(command, env=without | environment, cwd=ROOT, capture_output=True, text=True)
    found = re.search(r"^trained .*, (\d+) img/s$", done.stdout, re.MULTILINE)
    assert found, f"the training failed:\n{done.stdout}{done.stderr}"
    return float(found[1])


if __name__ == "__main__":
    main()
