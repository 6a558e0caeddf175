"""What assignment and loss cost on the GPU, per loss, image size and boxes per image.

    python -m benchmarks.bench_loss [--losses ota anchor …] [--sizes 320 640] [--boxes 8 15 60] [--batch 64]
        [--warm 8]      compile that many at once first, into the compiler's cache; timing then finds them there
        [--no-compile]  then the graph columns are of the eager step

Predictions are random float32 maps in channels_last order, 80 classes. `eager` runs the functions as they are written,
`compiled` through torch.compile(fullgraph=True), `graph` replays the compiled step captured as a CUDA graph. Times are
medians of 30 in ms; fwd is assignment and loss, f+b also the backward pass to the maps. `loop` is the same loss with a
loop over images and boxes (benchmarks/loop_ota.py), forward and backward, in the same run, where there is one.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from benchmarks.loop_ota import loop_loss
from benchmarks.timing import captured, environment, median_ms, peak_mib
from tests.gpu.problems import HYP, Reader, raw_maps, targets
from tests.gpu.test_loss import LOSSES
from yolofast import build_loss
from yolofast.structures import Targets

_MODES = ("eager fwd", "f+b", "compiled fwd", "f+b", "graph fwd", "f+b")
_HEADER = ("loss", "img", "boxes", "G", *_MODES, "peak MiB", "loop f+b")


def rows_of(truth: Targets) -> Tensor:
    image, place = truth.valid.nonzero(as_tuple=True)
    values = (image.float()[:, None], truth.labels[image, place].float()[:, None], truth.boxes[image, place])
    return torch.cat(values, dim=1)


def measure(name: str, size: int, boxes: int, batch: int, compile_too: bool) -> list[str]:
    head, assigner, aux = LOSSES[name]
    model = Reader(head, "cuda")
    raw = raw_maps(head, batch, size, "cuda", aux=aux)
    truth = targets(batch, boxes, head.nc, "cuda")
    criterion = build_loss(model, HYP, size, assigner)

    def total(raw: list[Tensor], truth: Targets) -> Tensor:
        return criterion(raw, truth).total

    def both(function: Callable[[list[Tensor], Targets], Tensor]) -> tuple[Callable[[], object], Callable[[], object]]:
        return lambda: function(raw, truth), lambda: torch.autograd.grad(function(raw, truth), raw)

    forward, step = both(total)
    row = [name, str(size), str(boxes), str(truth.valid.shape[1])]
    row += [f"{median_ms(work):.2f}" for work in (forward, step)]
    fast = (forward, step)
    if compile_too:
        torch._dynamo.reset()
        fast = both(torch.compile(total, fullgraph=True))
        row += [f"{median_ms(work):.2f}" for work in fast]
    else:
        row += ["-", "-"]
    row += [f"{median_ms(captured(work)):.3f}" for work in fast]
    row.append(f"{peak_mib(fast[1]):.0f}")
    if name in ("anchor", "ota"):
        gains = (criterion.settings.box, criterion.settings.obj, criterion.settings.cls)  # type: ignore[attr-defined]
        rows = rows_of(truth)

        def loop() -> Tensor:
            return loop_loss(raw, rows, model.anchors_px, head.strides, gains, ota=name == "ota")

        difference = abs(loop().item() / total(raw, truth).item() - 1)
        assert difference < 1e-4, f"the loop and ours differ by {difference:.1e}"
        row.append(f"{median_ms(lambda: torch.autograd.grad(loop(), raw), repeats=3, warmup=1):.1f}")
    else:
        row.append("-")
    return row


def compile_once(name: str, size: int, boxes: int, batch: int) -> None:
    head, assigner, aux = LOSSES[name]
    criterion = build_loss(Reader(head, "cuda"), HYP, size, assigner)
    raw = raw_maps(head, batch, size, "cuda", aux=aux)
    compiled = torch.compile(lambda raw, truth: criterion(raw, truth).total, fullgraph=True)
    torch.autograd.grad(compiled(raw, targets(batch, boxes, head.nc, "cuda")), raw)


def warm(cases: list[tuple[int, int, str]], batch: int, at_once: int) -> None:
    """Compiling is host work and takes longer than timing: do it for several cases side by side."""

    def run(case: tuple[int, int, str]) -> None:
        size, boxes, name = case
        flags = ["--losses", name, "--sizes", str(size), "--boxes", str(boxes), "--batch", str(batch), "--compile-only"]
        subprocess.run([sys.executable, "-m", "benchmarks.bench_loss", *flags], check=True)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(run, cases))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", nargs="+", default=list(LOSSES), choices=list(LOSSES))
    parser.add_argument("--sizes", nargs="+", type=int, default=[320, 640])
    parser.add_argument("--boxes", nargs="+", type=int, default=[8, 15, 60])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--warm", type=int, default=0, metavar="N")
    parser.add_argument("--compile-only", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    cases = [(size, boxes, name) for size in args.sizes for boxes in args.boxes for name in args.losses]
    if args.compile_only:
        for size, boxes, name in cases:
            compile_once(name, size, boxes, args.batch)
        return
    if args.warm:
        warm(cases, args.batch, args.warm)
    print(f"{environment()}, batch {args.batch}\n")
    print("| " + " | ".join(_HEADER) + " |")
    print("|" + "---|" * len(_HEADER), flush=True)
    start = time.perf_counter()
    for size, boxes, name in cases:
        row = measure(name, size, boxes, args.batch, not args.no_compile)
        print("| " + " | ".join(row) + " |", flush=True)
        torch.cuda.empty_cache()
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
