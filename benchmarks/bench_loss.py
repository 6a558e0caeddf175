"""What assignment and loss cost on the GPU, per loss, image size and boxes per image.

    python -m benchmarks.bench_loss [--losses ota anchor …] [--sizes 320 640] [--boxes 8 15 60] [--batch 64]
        [--at-once 8]   that many cases in processes of their own: they compile side by side, timing in turn
        [--no-compile]  then the graph columns are of the eager step

Predictions are random float32 maps in channels_last order, 80 classes. `eager` runs the functions as they are written,
`compiled` through torch.compile(fullgraph=True), `graph` replays the compiled step captured as a CUDA graph. Times are
medians of 30 in ms; fwd is assignment and loss, f+b also the backward pass to the maps. `loop` is the same loss with a
loop over images and boxes (benchmarks/loop_ota.py), forward and backward, in the same run, where there is one.
"""

import argparse
import fcntl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.loop_ota import loop_loss
from benchmarks.timing import captured, environment, median_ms, peak_mib
from tests.gpu.problems import HYP, Reader, raw_maps, targets
from tests.gpu.test_loss import LOSSES
from yolofast import build_loss
from yolofast.structures import Targets

# Image size, boxes per image, loss.
Case = tuple[int, int, str]

_MODES = ("eager fwd", "f+b", "compiled fwd", "f+b", "graph fwd", "f+b")
_HEADER = ("loss", "img", "boxes", "G", *_MODES, "peak MiB", "loop f+b")


def rows_of(truth: Targets) -> Tensor:
    image, place = truth.valid.nonzero(as_tuple=True)
    values = (image.float()[:, None], truth.labels[image, place].float()[:, None], truth.boxes[image, place])
    return torch.cat(values, dim=1)


@contextmanager
def turn(lock: Path | None) -> Iterator[None]:
    """Only one process at a time gets past here."""
    if lock is None:
        yield
        return
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def measure(case: Case, batch: int, compile_too: bool, lock: Path | None) -> list[str]:
    size, boxes, name = case
    head, assigner, aux = LOSSES[name]
    model = Reader(head, "cuda")
    raw = raw_maps(head, batch, size, "cuda", aux=aux)
    truth = targets(batch, boxes, head.nc, "cuda")
    criterion = build_loss(model, HYP, size, assigner)

    def total(raw: list[Tensor], truth: Targets) -> Tensor:
        return criterion(raw, truth).total

    def both(function: Callable[[list[Tensor], Targets], Tensor]) -> tuple[Callable[[], object], Callable[[], object]]:
        return lambda: function(raw, truth), lambda: torch.autograd.grad(function(raw, truth), raw)

    eager = both(total)
    fast = both(torch.compile(total, fullgraph=True)) if compile_too else eager
    for work in (*eager, *fast):
        work()  # compiles here, out of turn
    with turn(lock):
        row = [name, str(size), str(boxes), str(truth.valid.shape[1])]
        row += [f"{median_ms(work):.2f}" for work in eager]
        row += [f"{median_ms(work):.2f}" if compile_too else "-" for work in fast]
        row += [f"{median_ms(captured(work)):.3f}" for work in fast]
        row.append(f"{peak_mib(fast[1]):.0f}")
        row.append(loop_time(name, criterion, raw, truth) if name in ("anchor", "ota") else "-")
    return row


def loop_time(name: str, criterion: Any, raw: list[Tensor], truth: Targets) -> str:
    """Median of 3 in ms of the same loss as a loop, checked to be the same."""
    gains = (criterion.settings.box, criterion.settings.obj, criterion.settings.cls)
    rows, model = rows_of(truth), criterion.model

    def loop() -> Tensor:
        return loop_loss(raw, rows, model.anchors_px, model.layout.strides, gains, ota=name == "ota")

    # The loop writes some cells twice, in no fixed order: for the comparison, the last write of each has to win.
    torch.use_deterministic_algorithms(True, warn_only=True)
    difference = abs(loop().item() / criterion(raw, truth).total.item() - 1)
    torch.use_deterministic_algorithms(False)
    assert difference < 1e-4, f"the loop and ours differ by {difference:.1e}"
    return f"{median_ms(lambda: torch.autograd.grad(loop(), raw), repeats=3, warmup=1):.1f}"


def measure_elsewhere(case: Case, flags: list[str], lock: Path) -> str:
    size, boxes, name = case
    own = ["--losses", name, "--sizes", str(size), "--boxes", str(boxes), "--lock", str(lock)]
    command = [sys.executable, "-m", "benchmarks.bench_loss", *own, *flags]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() or f"| {name} | {size} | {boxes} | failed with exit code {done.returncode} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", nargs="+", default=list(LOSSES), choices=list(LOSSES))
    parser.add_argument("--sizes", nargs="+", type=int, default=[320, 640])
    parser.add_argument("--boxes", nargs="+", type=int, default=[8, 15, 60])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--at-once", type=int, default=1, metavar="N")
    parser.add_argument("--lock", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    cases = [(size, boxes, name) for size in args.sizes for boxes in args.boxes for name in args.losses]
    if args.lock:
        for case in cases:
            print("| " + " | ".join(measure(case, args.batch, not args.no_compile, args.lock)) + " |")
        return
    print(f"{environment()}, batch {args.batch}\n")
    print("| " + " | ".join(_HEADER) + " |")
    print("|" + "---|" * len(_HEADER), flush=True)
    flags = ["--batch", str(args.batch), *(["--no-compile"] if args.no_compile else [])]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.at_once) as pool:
        lock = Path(folder) / "turn"
        for row in pool.map(lambda case: measure_elsewhere(case, flags, lock), cases):
            print(row, flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
