"""What verifying packed pixels in the background costs: CPU seconds of its thread against those of a whole epoch.

`python -m benchmarks.bench_verification --images 300 --times 3` packs a set of shapes, then trains runs of
one epoch on it by `--cache disk`, alternately with and without the thread.
"""

import argparse
import io
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from yolofast.cli import main as yolofast
from yolofast.store.background import BackgroundCheck


def trained(folder: Path, name: str, size: int) -> None:
    data = folder / "shapes" / "data.yaml"
    how = ["--cfg", "mini", "--weights", "", "--epochs", "1", "--batch-size", "16", "--workers", "0"]
    places = ["--project", str(folder / "runs"), "--name", name, "--cache", "disk", "--no-plots"]
    with redirect_stdout(io.StringIO()):
        code = yolofast(["train", "--data", str(data), "--img", str(size), "--device", "cpu", *how, *places])
    assert code == 0


def timed(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--img", type=int, default=320)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    os.environ["YOLOFAST_CACHE"] = str(folder / "cache")
    spent: list[float] = []
    run, start = BackgroundCheck._run, BackgroundCheck.start

    def counted(check: BackgroundCheck) -> None:
        begun = time.thread_time()
        run(check)
        spent.append(time.thread_time() - begun)

    BackgroundCheck._run = counted  # type: ignore[method-assign]
    with redirect_stdout(io.StringIO()):
        assert yolofast(["dataset", "shapes", "--out", str(folder / "shapes"), "--n", str(options.images)]) == 0
    trained(folder, "packing", options.img)
    spent.clear()
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{options.images} images of {options.img} pixels, {cores} cores, load {load:.1f}")
    for number in range(options.times):
        BackgroundCheck.start = start  # type: ignore[method-assign]
        with_it = timed(lambda number=number: trained(folder, f"with{number}", options.img))  # type: ignore[misc]
        BackgroundCheck.start = lambda check: None  # type: ignore[method-assign]
        without = timed(lambda number=number: trained(folder, f"without{number}", options.img))  # type: ignore[misc]
        share = 100 * spent[-1] / with_it
        print(f"with {with_it:.2f} s, of which its thread {spent[-1]:.3f} s ({share:.2f} %); without {without:.2f} s")


if __name__ == "__main__":
    main()
