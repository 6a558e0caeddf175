"""What a whole training step costs on the GPU, data included: the run a user gets, network by network.

    python -m benchmarks.bench_train --data DATA.yaml [--cases yolov7-tiny:320:64:ota …] [--at-once 5] [--loader cpu]

A case is network, image size (one side, or height x width), batch and assigner. `yolox-s:640:64:simota:held` times a
second row in the same process, the step without assigning (`held_assignment.py`): the difference is what SimOTA costs.
YOLOX sees what its recipe says, mosaics and mixup included, at one size.

Each case runs in a process of its own, which builds the run with `prepare_run` and captures the step. `--gears graph`
compiles it before, `eager` does neither. When all processes of a group stand ready they are timed one after the
other, so that nothing compiles meanwhile. `step` is
the median over epochs of the wall clock of an epoch divided by its batches: plans, pixels, augmentation, forward,
assignment, loss, backward, update and moving average. `step alone` is the same without data: one batch again and again.
`GPU busy` is what the driver counts as utilisation while it is timed; `kernels` is stricter, the share of the time in
which some kernel ran, without the microsecond between two of them. `main process` is its processor time in percent of a
core, `peak` the memory torch has taken, graphs included.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import psutil
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from benchmarks.held_assignment import with_held_assignment
from benchmarks.timing import environment
from yolofast.config.train import TrainConfig
from yolofast.train.families.family import completed
from yolofast.train.gears.compiling import compiled_loss_of
from yolofast.train.gears.gears import EagerGear, Gear, GraphGear, Pace
from yolofast.train.run import Run, prepare_run
from yolofast.train.step import StepKind

CASES = (
    "yolov7-tiny:320:64:ota", "yolov7:320:64:ota", "yolov7-tiny:640:64:ota", "yolov7:640:64:ota",
    "yolov7-tiny:320:384:ota", "yolov7-tiny:320:64:anchor", "yolov7:320:64:anchor",
    "yolox-s:320:64:simota:held", "yolox-s:640:64:simota:held", "yolox-l:640:64:simota:held",
    "yolox-l:800x1440:32:simota:held",
)  # fmt: skip
HELD = ":held"
_ALONE = StepKind(sums=False, updates=True)
_HEADER = (
    "network", "img", "batch", "assigner", "gear", "step ms", "img/s", "step alone ms", "GPU busy %",
    "kernels %", "main process %", "peak GiB", "first step after s",
)  # fmt: skip


def configuration(case: str, data: str, loader: str) -> TrainConfig:
    cfg, size, batch, assigner = case.split(":")[:4]
    if cfg.startswith("yolox"):
        return yolox_configuration(case, data, loader)
    tiny = "data/hyp.scratch.tiny.yaml" if "tiny" in cfg else "data/hyp.scratch.p5.yaml"
    return TrainConfig(
        cfg=cfg, data=data, img_size=(int(size),), batch_size=int(batch), assigner=assigner,  # type: ignore[arg-type]
        hyp=tiny, noautoanchor=True, loader=loader, epochs=1000, workers=16,  # type: ignore[arg-type]
    )  # fmt: skip


def yolox_configuration(case: str, data: str, loader: str) -> TrainConfig:
    cfg, size, batch, assigner = case.split(":")[:4]
    height, _, width = size.partition("x")
    sides = int(height), int(width or height)
    config = TrainConfig(
        cfg=cfg, data=data, img_size=(max(sides),), batch_size=int(batch), assigner=assigner,  # type: ignore[arg-type]
        recipe_values=(f"input_size={sides[0]},{sides[1]}", "multi_scale=false"),
        loader=loader, epochs=1000, workers=16,  # type: ignore[arg-type]
    )  # fmt: skip
    return completed(config, ("cfg", "img_size", "batch_size", "epochs"))


def gear_of(run: Run, name: str) -> Gear:
    if name == "eager":
        return EagerGear(run.step)
    return GraphGear(run.step, compiled_loss_of(run.step) if name == "graph" else None)


def one_epoch(run: Run, gear: Gear, epoch: int) -> int:
    """Only whole batches: a short one at the end is another shape."""
    run.start_epoch(epoch)
    count, pace = 0, Pace(run.step.precision.device)
    for batch in run.batches.epoch(epoch):
        if len(batch.images) == run.images_per_step:
            gear.run(run.step.on_device(batch), _ALONE)
            pace.step_queued()
            count += 1
    torch.cuda.synchronize()
    return count


def measure(run: Run, gear: Gear, seconds: float) -> dict[str, Any]:
    process, times, steps, epoch = psutil.Process(), [], 0, 2
    utilisation = Utilisation()
    before, start = process.cpu_times(), time.perf_counter()
    while time.perf_counter() - start < seconds or len(times) < 3:
        begun = time.perf_counter()
        count = one_epoch(run, gear, epoch)
        times.append((time.perf_counter() - begun) / count)
        steps, epoch = steps + count, epoch + 1
    wall, after = time.perf_counter() - start, process.cpu_times()
    busy = utilisation.mean()
    used = after.user + after.system - before.user - before.system
    step = statistics.median(times)
    return {
        "step": step * 1e3,
        "rate": run.source_images_per_step / step,
        "cpu": 100 * used / wall,
        "peak": torch.cuda.max_memory_reserved() / 2**30,
        "alone": alone_ms(run, gear),
        "busy": busy,
        "kernels": kernel_share(run, gear, epoch),
        "bad": int(run.step.losses.bad_steps),
    }


class Utilisation:
    """What the driver says five times a second, from now until it is asked."""

    def __init__(self) -> None:
        command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def mean(self) -> float:
        self._process.terminate()
        said = self._process.communicate()[0].split()
        return statistics.mean(float(value) for value in said[1:-1]) if len(said) > 2 else float("nan")


def alone_ms(run: Run, gear: Gear, repeats: int = 30) -> float:
    batches = run.batches.epoch(0)
    batch = run.step.on_device(next(batches))
    gear.run(batch, _ALONE)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        gear.run(batch, _ALONE)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats * 1e3


def kernel_share(run: Run, gear: Gear, epoch: int) -> float:
    """From the moments at which kernels begin and end, overlaps counted once, over some steps in the middle."""
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        one_epoch(run, gear, epoch)
    spans = sorted(
        (e.time_range.start, e.time_range.end) for e in seen.events() if e.device_type == DeviceType.CUDA
    )  # fmt: skip
    first, last = spans[len(spans) // 5][0], spans[len(spans) * 4 // 5][0]
    covered, until = 0.0, first
    for begin, end in spans:
        begin, end = max(begin, until), min(end, last)
        if end > begin:
            covered, until = covered + end - begin, end
    return 100 * covered / (last - first)


def child(case: str, data: str, loader: str, gear_name: str, seconds: float) -> None:
    begun = time.perf_counter()
    run = prepare_run(configuration(case, data, loader), lambda text: print(text, file=sys.stderr))
    run.step.optimizer.set((1e-3, 1e-3, 1e-3), 0.9)
    gear: Gear | None = gear_of(run, gear_name)
    one_epoch(run, gear, 0)
    ready = time.perf_counter() - begun
    torch.cuda.empty_cache()
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps({**timed(run, gear, seconds), "ready": ready}), flush=True)
    if case.endswith(HELD):
        gear = None  # the memory of two graphs may be more than there is
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        begun, run = time.perf_counter(), with_held_assignment(run)
        gear = gear_of(run, gear_name)
        one_epoch(run, gear, 0)
        ready = time.perf_counter() - begun
        print(json.dumps({**timed(run, gear, seconds), "ready": ready}), flush=True)
    run.close()


def timed(run: Run, gear: Gear, seconds: float) -> dict[str, Any]:
    one_epoch(run, gear, 1)
    return measure(run, gear, seconds)


def measured(cases: list[tuple[str, str]], args: argparse.Namespace) -> Iterator[str]:
    """A process for each case; all get ready side by side, then each is timed alone. Rows, when they are known."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.bench_train", "--data", args.data, "--child", case, "--gears", gear,
             "--loader", args.loader, "--seconds", str(args.seconds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for case, gear in cases
    ]  # fmt: skip
    watch = ThreadPoolExecutor(len(processes))
    requested = [watch.submit(process.stdout.readline) for process in processes if process.stdout]
    wait(requested, timeout=args.patience)
    for (case, gear), process, answer in zip(cases, processes, requested, strict=True):
        is_ready = answer.done() and answer.result() == "ready\n"
        if not is_ready:
            process.kill()
        with process:
            found = _timings(process) if is_ready else iter(())
            for one in [case.removesuffix(HELD), case] if case.endswith(HELD) else [case]:
                yield row(one, gear, next(found, None))


def _timings(process: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    yield from map(json.loads, process.stdout)


def row(case: str, gear: str, found: dict[str, Any] | None) -> str:
    cfg, size, batch, *assigner = case.split(":")
    cells = [cfg, size, batch, ", ".join(assigner), gear]
    if found is None:
        return "| " + " | ".join([*cells, "failed", *[""] * 7]) + " |"
    cells += [
        f"{found['step']:.2f}", f"{found['rate']:,.0f}", f"{found['alone']:.2f}", f"{found['busy']:.1f}",
        f"{found['kernels']:.1f}", f"{found['cpu']:.0f}", f"{found['peak']:.1f}", f"{found['ready']:.0f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + (" |" if not found["bad"] else " | NaN losses |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--gears", nargs="+", default=["capture"], choices=["eager", "capture", "graph"])
    parser.add_argument("--loader", default="auto", choices=["auto", "cpu"])
    parser.add_argument("--at-once", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each case is timed")
    parser.add_argument(
        "--patience", type=float, default=1800, help="seconds after which cases that still compile fail"
    )
    parser.add_argument("--out", type=Path, help="also write the table there")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.data, args.loader, args.gears[0], args.seconds)
        return
    lines = [environment(), "", "| " + " | ".join(_HEADER) + " |", "|---|" + "--:|" * (len(_HEADER) - 1)]
    print("\n".join(lines), flush=True)
    pairs = [(case, gear) for gear in args.gears for case in args.cases]
    for first in range(0, len(pairs), args.at_once):
        for line in measured(pairs[first : first + args.at_once], args):
            lines.append(line)
            print(line, flush=True)
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
