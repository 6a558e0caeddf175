"""What a whole training step costs on the GPU, data included: the run a user gets, network by network.

    python -m benchmarks.bench_train --data DATA.yaml [--cases yolov7-tiny:320:64:ota …] [--at-once 5] [--loader cpu]

A case is network, image size (one side, or height x width), batch and assigner. `yolox-s:640:64:simota:held` times a
second row in the same process, the step without assigning (`held_assignment.py`): the difference is what SimOTA costs.
YOLOX sees what its recipe says, mosaics and mixup included, at one size.

Each case runs in a process of its own, which builds the run with `prepare_run` and captures the step. `--gears graph`
compiles it before, `eager` does neither. `--gears capture ranks` measures beside the captured step what several ranks
do more: a process group of one, whose NCCL adds up gradients and counts within the captured step, and whose host meets
itself. When all processes of a group stand ready they are timed one after the other, so that nothing compiles
meanwhile. `step` is the median over epochs of the wall clock of an epoch divided by its batches: plans, pixels,
augmentation, forward, assignment, loss, backward, update and moving average. `step alone` is the same without data:
one batch again and again.
`GPU busy` is what the driver counts as utilisation while it is timed; `kernels` is stricter, the share of the time in
which some kernel ran, without the microsecond between two of them. `main process` is its processor time in percent of a
core, `peak` the memory torch has taken, graphs included.

`--against GIT_REF` times this version and that of a commit in turn, one process at a time, `--rounds` of each: the
median of the rounds, smallest and largest beside it. Both are measured by this program; a version too old for it fails.
`--device cpu` is for trials of the program: what only a GPU has is left out.
"""

import argparse
import gc
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
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
from benchmarks.versions import ROOT, THIS, environment_of, in_turn, spread, versions
from yolofast.config.train import TrainConfig
from yolofast.precision import device_of
from yolofast.train.distributed.join import group_of_one
from yolofast.train.families.family import completed
from yolofast.train.gears.compiling import compiled_loss_of
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.gears.gears import EagerGear, Gear, GraphGear, Pace
from yolofast.train.run import Run, prepare_run
from yolofast.train.step import StepKind

CASES = (
    "yolov7-tiny:320:64:ota", "yolov7:320:64:ota", "yolov7-tiny:640:64:ota", "yolov7:640:64:ota",
    "yolov7-tiny:320:384:ota", "yolov7-tiny:320:64:anchor", "yolov7:320:64:anchor",
    "yolox-s:320:64:simota:held", "yolox-s:640:64:simota:held", "yolox-l:640:64:simota:held",
    "yolox-l:800x1440:32:simota:held",
)  # fmt: skip
HELD, RANKS = ":held", "ranks"
_ALONE = StepKind(sums=False, updates=True)
_HEADER = (
    "network", "img", "batch", "assigner", "gear", "step ms", "img/s", "step alone ms", "GPU busy %",
    "kernels %", "main process %", "peak GiB", "first step after s",
)  # fmt: skip


_AGAINST = ("network", "img", "batch", "assigner", "gear", "what", THIS, "{against}", "this / {against}")
_COMPARED = (("step", "step ms", 2), ("alone", "step alone ms", 2), ("ready", "first step after s", 0))


def configuration(case: str, data: str, loader: str, device: str = "", workers: int = 16) -> TrainConfig:
    cfg, size, batch, assigner = case.split(":")[:4]
    if cfg.startswith("yolox"):
        return yolox_configuration(case, data, loader, device, workers)
    tiny = "data/hyp.scratch.tiny.yaml" if "tiny" in cfg else "data/hyp.scratch.p5.yaml"
    return TrainConfig(
        cfg=cfg, data=data, img_size=(int(size),), batch_size=int(batch), assigner=assigner,  # type: ignore[arg-type]
        hyp=tiny, noautoanchor=True, loader=loader, epochs=1000, workers=workers, device=device,  # type: ignore[arg-type]
    )  # fmt: skip


def yolox_configuration(case: str, data: str, loader: str, device: str = "", workers: int = 16) -> TrainConfig:
    cfg, size, batch, assigner = case.split(":")[:4]
    height, _, width = size.partition("x")
    sides = int(height), int(width or height)
    config = TrainConfig(
        cfg=cfg, data=data, img_size=(max(sides),), batch_size=int(batch), assigner=assigner,  # type: ignore[arg-type]
        recipe_values=(f"input_size={sides[0]},{sides[1]}", "multi_scale=false"),
        loader=loader, epochs=1000, workers=workers, device=device,  # type: ignore[arg-type]
    )  # fmt: skip
    return completed(config, ("cfg", "img_size", "batch_size", "epochs"))


def gear_of(run: Run, name: str) -> Gear:
    if name == "eager" or run.step.precision.device.type == "cpu":
        return EagerGear(run.step)
    if name == RANKS:
        return GearBox(run.step, "graph", run.images_per_step, 10**6, lambda text: print(text, file=sys.stderr))
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
    wait_for_gpu()
    return count


def wait_for_gpu() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


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
        "peak": torch.cuda.max_memory_reserved() / 2**30 if torch.cuda.is_available() else float("nan"),
        "alone": alone_ms(run, gear),
        "busy": busy,
        "kernels": kernel_share(run, gear, epoch),
        "bad": int(run.step.losses.bad_steps),
    }


class Utilisation:
    """What the driver says five times a second, from now until it is asked."""

    def __init__(self) -> None:
        command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"]
        self._process = (
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) if shutil.which(*command[:1]) else None
        )

    def mean(self) -> float:
        if self._process is None:
            return float("nan")
        self._process.terminate()
        said = self._process.communicate()[0].split()
        return statistics.mean(float(value) for value in said[1:-1]) if len(said) > 2 else float("nan")


def alone_ms(run: Run, gear: Gear, repeats: int = 30) -> float:
    batches = run.batches.epoch(0)
    batch = run.step.on_device(next(batches))
    gear.run(batch, _ALONE)
    wait_for_gpu()
    start = time.perf_counter()
    for _ in range(repeats):
        gear.run(batch, _ALONE)
    wait_for_gpu()
    return (time.perf_counter() - start) / repeats * 1e3


def kernel_share(run: Run, gear: Gear, epoch: int) -> float:
    """From the moments at which kernels begin and end, overlaps counted once, over some steps in the middle."""
    if not torch.cuda.is_available():
        return float("nan")
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


def child(args: argparse.Namespace) -> None:
    if args.gears[0] == RANKS:
        with group_of_one(device_of(args.device)):
            ready_and_timed(args)
            gc.collect()
    else:
        ready_and_timed(args)


def ready_and_timed(args: argparse.Namespace) -> None:
    case, gear_name, seconds, begun = args.child, args.gears[0], args.seconds, time.perf_counter()
    config = configuration(case, args.data, args.loader, args.device, args.workers)
    run = prepare_run(config, lambda text: print(text, file=sys.stderr))
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
    if isinstance(gear, GearBox):
        gear.close()
    run.close()


def timed(run: Run, gear: Gear, seconds: float) -> dict[str, Any]:
    one_epoch(run, gear, 1)
    return measure(run, gear, seconds)


Found = dict[str, Any] | None
"""None: it failed."""


def measured(
    cases: list[tuple[str, str]], args: argparse.Namespace, code: Path = ROOT
) -> Iterator[tuple[str, str, Found]]:
    """A process for each case; all get ready side by side, then each is timed alone. With case and gear, when known."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.bench_train", "--data", args.data, "--child", case, "--gears", gear,
             "--loader", args.loader, "--seconds", str(args.seconds), "--device", args.device,
             "--workers", str(args.workers)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=code, env=environment_of(code),
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
                yield one, gear, next(found, None)


def _timings(process: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    yield from map(json.loads, process.stdout)


def row(case: str, gear: str, found: Found) -> str:
    cfg, size, batch, *assigner = case.split(":")
    cells = [cfg, size, batch, ", ".join(assigner), gear]
    if found is None:
        return "| " + " | ".join([*cells, "failed", *[""] * 7]) + " |"
    cells += [
        f"{found['step']:.2f}", f"{found['rate']:,.0f}", f"{found['alone']:.2f}", f"{found['busy']:.1f}",
        f"{found['kernels']:.1f}", f"{found['cpu']:.0f}", f"{found['peak']:.1f}", f"{found['ready']:.0f}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + (" |" if not found["bad"] else " | NaN losses |")


def compared(case: str, gear: str, args: argparse.Namespace, code: dict[str, Path]) -> Iterator[str]:
    """Rows: what each version takes, and how many times as long as the other."""
    found = in_turn(list(code), args.rounds, lambda version: list(measured([(case, gear)], args, code[version])))
    for place, (one, _, _) in enumerate(found[THIS][0]):
        cfg, size, batch, *assigner = one.split(":")
        for name, title, digits in _COMPARED:
            rounds = {
                version: [each[place][2][name] for each in several if each[place][2]]
                for version, several in found.items()
            }
            both = [statistics.median(values) for values in rounds.values() if values]
            ratio = f"{both[0] / both[1]:.3f}" if len(both) == 2 and both[1] else ""
            cells = [cfg, size, batch, ", ".join(assigner), gear, title]
            cells += [*(spread(values, digits) for values in rounds.values()), ratio]
            yield "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--gears", nargs="+", default=["capture"], choices=["eager", "capture", "graph", RANKS])
    parser.add_argument("--loader", default="auto", choices=["auto", "cpu"])
    parser.add_argument("--at-once", type=int, default=5)
    parser.add_argument("--against", default="", help="a commit of this repository")
    parser.add_argument("--rounds", type=int, default=3, help="of each version, with --against")
    parser.add_argument("--device", default="")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each case is timed")
    parser.add_argument(
        "--patience", type=float, default=1800, help="seconds after which cases that still compile fail"
    )
    parser.add_argument("--out", type=Path, help="also write the table there")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args)
        return
    if Path(args.data).exists():
        args.data = str(Path(args.data).resolve())
    header = [cell.format(against=args.against) for cell in _AGAINST] if args.against else list(_HEADER)
    lines = [environment(), "", "| " + " | ".join(header) + " |", "|---|" + "--:|" * (len(header) - 1)]
    print("\n".join(lines), flush=True)
    for line in rows(args):
        lines.append(line)
        print(line, flush=True)
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")


def rows(args: argparse.Namespace) -> Iterator[str]:
    pairs = [(case, gear) for gear in args.gears for case in args.cases]
    if args.against:
        with tempfile.TemporaryDirectory() as folder:
            code = versions(args.against, Path(folder) / "against")
            for pair in pairs:
                yield from compared(*pair, args, code)
        return
    for first in range(0, len(pairs), args.at_once):
        for found in measured(pairs[first : first + args.at_once], args):
            yield row(*found)


if __name__ == "__main__":
    main()
