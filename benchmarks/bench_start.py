"""How long a training takes to start: from typing `yolofast train` to its first epoch, and to the prompt.

`python -m benchmarks.bench_start [--against GIT_REF] [--device cpu --img 64 --batch 8 --cfg mini --pictures 24]`

Two epochs on built-in shapes, without evaluation or pictures. With `--against` the version of that commit runs in turn
with this one, so both meet the same machine; the first round of each is cold and told apart. Where the time goes is
what `yolofast profile --startup` says.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.versions import environment_of, in_turn, versions
from yolofast.dataset.shapes.made_once import make_shapes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="", help="a commit of this repository")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--cfg", default="yolov7-tiny")
    parser.add_argument("--img", default="320")
    parser.add_argument("--batch", default="64")
    parser.add_argument("--pictures", type=int, default=512)
    parser.add_argument("--device", default="")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = versions(asked.against, folder / "against")
        words = [
            "train", "--data", str(make_shapes(folder / "shapes", n=asked.pictures)), "--cfg", asked.cfg, "--weights=",
            "--img", asked.img, "--batch-size", asked.batch, "--epochs", "2", "--notest", "--no-plots",
            "--project", str(folder / "runs"), *(["--device", asked.device] if asked.device else []),
        ]  # fmt: skip
        measured = in_turn(list(code), asked.rounds, lambda version: started(words, code[version]))
        print("| version | cold: first epoch s | prompt s | warm: first epoch s | prompt s |\n|---|--:|--:|--:|--:|")
        for version, (cold, *warm) in measured.items():
            middle = [statistics.median(column) for column in zip(*(warm or [cold]), strict=True)]
            print(f"| {version} | {cold[0]:.1f} | {cold[1]:.1f} | {middle[0]:.1f} | {middle[1]:.1f} |")


def started(words: list[str], code: Path) -> tuple[float, float]:
    """Seconds until the first epoch's line, and until the process has ended."""
    begin, first = time.perf_counter(), 0.0
    command = [sys.executable, "-m", "yolofast", *words]
    with subprocess.Popen(command, env=environment_of(code), cwd=code, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if not first and line.split()[:1] == ["1/2"]:
                first = time.perf_counter() - begin
    assert process.returncode == 0 and first, "the training failed; its message is above"
    return first, time.perf_counter() - begin


if __name__ == "__main__":
    main()
