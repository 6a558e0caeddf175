"""Where the time of a captured step goes: kernels by kind, and convolutions by shape with what they reach.

    python -m benchmarks.bench_kernels --data DATA.yaml [--cases yolov7-tiny:320:64:ota …] [--replays 20] [--shapes 20]

Cases are those of `bench_train`. A replayed graph tells the profiler names and times of its kernels, but not whose
they are. So the same step also runs once as written, with the profiler looking at layers and shapes too: it launches
the same kernels in the same order, and each replayed one gets the label of its like. Times are medians over replays.

FLOP/s and bytes/s of a convolution are those it needs (each map and weight read or written once, two bytes a number),
divided by the time of all kernels it launched, those that copy or set memory for it included. Convolutions that run as
one count as one. `--keep` also writes the two traces there.
"""

import argparse
import json
import re
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.bench_train import _ALONE, CASES, HELD, alone_ms, configuration, wait_for_gpu
from benchmarks.timing import environment
from yolofast.profile.measure.trace import TracedSteps, quiet_profiler
from yolofast.profile.step_phases import ASSIGN, BACKWARD, EMA, FORWARD, LOSS, OPTIMIZER, ORDER, REST
from yolofast.structures import Batch
from yolofast.train.gears.gears import EagerGear, GraphGear
from yolofast.train.run import Run, prepare_run

_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_PARTS = ("forward", "input gradient", "weight gradient")
_OURS = (
    ("norm_act_kernel", "BatchNorm and activation, forward"),
    ("norm_act_back", "BatchNorm and activation, backward"),
    (r"pool_|window_|double_", "pools, upsampling"),
    (r"stem_", "first convolution"),
    (r"slots_kernel|objectness_kernel|gradient_kernel", "loss"),
)
"""The project's own kernels by how their names begin."""
_OF_OPERATORS = {
    "aten::cat": "joining maps", "aten::mm": "head's products", "aten::addmm": "head's products",
    "aten::_foreach_copy_": "casts, copies", "aten::copy_": "casts, copies", "aten::clone": "casts, copies",
}  # fmt: skip
_OF_PHASES = {OPTIMIZER: "optimizer", EMA: "average", ASSIGN: "assignment", LOSS: "loss", REST: "records"}


@dataclass(frozen=True)
class Shape:
    """Of a convolution."""

    images: int
    channels: int
    outputs: int
    size: tuple[int, int]
    """Of its map."""
    window: int
    stride: int
    groups: int

    def __str__(self) -> str:
        sides = f"{self.size[0]}×{self.size[1]}"
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        return f"{self.channels} → {self.outputs}, {sides}, {self.window}×{self.window}/{self.stride}{groups}"

    @property
    def flops(self) -> float:
        places = self.images * self.size[0] * self.size[1]
        return 2.0 * places * self.outputs * self.channels // self.groups * self.window**2

    @property
    def bytes(self) -> float:
        places = self.images * self.size[0] * self.size[1]
        weights = self.outputs * self.channels // self.groups * self.window**2
        return 2.0 * (places * self.outputs + places * self.stride**2 * self.channels + weights)


@dataclass(frozen=True)
class Launch:
    """A kernel, and who launched it."""

    name: str
    operator: str = ""
    phase: str = ""
    shape: Shape | None = None
    part: str = ""
    """Of a convolution."""


def launches(events: Sequence[dict[str, Any]]) -> list[Launch]:
    """Of a step that ran as written, in order."""
    operators = {e["args"]["External id"]: e for e in events if e.get("cat") == "cpu_op" and "External id" in e["args"]}
    phases = sorted(
        (e["ts"], e["ts"] + e["dur"], e["name"]) for e in events
        if e.get("cat") == "user_annotation" and e["name"] in ORDER
    )  # fmt: skip
    begun = {
        e["args"]["correlation"]: e["ts"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")
        and "correlation" in e["args"]
    }  # fmt: skip
    found: list[Launch] = []
    same: dict[int, list[int]] = defaultdict(list)  # operator → its kernels
    phase = ""
    for event in on_device(events):
        moment = begun.get(event["args"].get("correlation"))
        if moment is not None:
            phase = next((name for start, end, name in phases if start <= moment <= end), phase)
        number = event["args"].get("External id")
        operator = operators.get(number, {"name": "", "args": {}})
        found.append(Launch(event["name"], operator["name"], phase, shape_of(operator)))
        if found[-1].shape is not None:
            same[number].append(len(found) - 1)
    for number, places in same.items():
        parts = parts_of([found[place].name for place in places], operators[number])
        for place, part in zip(places, parts, strict=True):
            found[place] = replace(found[place], part=part)
    return found


def on_device(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted((e for e in events if e.get("cat") in _ON_DEVICE), key=lambda e: e["ts"])


def shape_of(operator: dict[str, Any]) -> Shape | None:
    dims, values = operator["args"].get("Input Dims", []), operator["args"].get("Concrete Inputs", [])
    if operator["name"] == "aten::convolution_backward":
        (_, _, *size), x, weight = dims[:3]
        stride = round(x[2] / size[0])
    elif operator["name"] in ("aten::cudnn_convolution", "aten::_convolution", "aten::convolution"):
        x, weight = dims[:2]
        stride = int(re.findall(r"\d+", values[3])[0])
        size = [-(-side // stride) for side in x[2:]]
    else:
        return None
    return Shape(x[0], x[1], weight[0], (size[0], size[1]), weight[2], stride, x[1] // weight[1])


def parts_of(names: Sequence[str], operator: dict[str, Any]) -> list[str]:
    """Of the kernels of one convolution; a backward pass computes the input's gradient first, then the weight's."""
    if operator["name"] != "aten::convolution_backward":
        return [_PARTS[0]] * len(names)
    wanted = [word == "True" for word in re.findall("True|False", operator["args"]["Concrete Inputs"][-1])]
    of_input = [place for place, name in enumerate(names) if "dgrad" in name]
    of_weight = [place for place, name in enumerate(names) if "wgrad" in name]
    border = of_input[-1] + 1 if of_input else min(of_weight[0], 1) if of_weight else 1
    border = len(names) if not wanted[1] else border if wanted[0] else 0
    return [_PARTS[1]] * border + [_PARTS[2]] * (len(names) - border)


def replayed(events: Iterable[dict[str, Any]], replays: int) -> list[tuple[str, float]]:
    """Name and median time in microseconds of each kernel of a replay."""
    found = [(event["name"], event["dur"]) for event in on_device(events)]
    each, rest = divmod(len(found), replays)
    rounds = [found[start : start + each] for start in range(0, each * replays, each)] if each else []
    if rest or not rounds or any([name for name, _ in one] != [name for name, _ in rounds[0]] for one in rounds):
        raise SystemExit(f"{len(found)} kernels in {replays} replays: the profiler lost some; give fewer --replays")
    return [(kernels[0][0], statistics.median(us for _, us in kernels)) for kernels in zip(*rounds, strict=True)]


def labelled(kernels: Sequence[tuple[str, float]], known: Sequence[Launch]) -> list[tuple[Launch, float]]:
    """Each with the launch of the same name at the same place; those without one keep their name alone."""
    names = [name for name, _ in kernels]
    of = [Launch(name) for name in names]
    matcher = SequenceMatcher(None, names, [one.name for one in known], autojunk=False)
    for place, other, count in matcher.get_matching_blocks():
        of[place : place + count] = known[other : other + count]
    return [(launch, us) for launch, (_, us) in zip(of, kernels, strict=True)]


def kind_of(launch: Launch) -> str:
    if launch.shape is not None:
        return f"convolutions, {launch.part}"
    for pattern, kind in _OURS:
        if re.match(pattern, launch.name):
            return kind
    if not launch.phase:
        return "not found in the step as written"
    if launch.phase in _OF_PHASES:
        return _OF_PHASES[launch.phase]
    if launch.operator in ("aten::add", "aten::add_") and launch.phase == BACKWARD:
        return "adding gradients"
    return _OF_OPERATORS.get(launch.operator, "the rest, forward" if launch.phase == FORWARD else "the rest, backward")


def by_kind(kernels: Sequence[tuple[Launch, float]]) -> Iterator[str]:
    times: dict[str, list[float]] = defaultdict(list)
    for launch, us in kernels:
        times[kind_of(launch)].append(us)
    whole = sum(us for _, us in kernels)
    yield "| kind | kernels | ms | % |"
    yield "|---|--:|--:|--:|"
    for kind, found in sorted(times.items(), key=lambda pair: -sum(pair[1])):
        yield f"| {kind} | {len(found)} | {sum(found) / 1e3:.3f} | {100 * sum(found) / whole:.1f} |"
    yield f"| all | {len(kernels)} | {whole / 1e3:.3f} | 100.0 |"


def by_shape(kernels: Sequence[tuple[Launch, float]], shapes: int) -> Iterator[str]:
    times: dict[Shape, dict[str, float]] = defaultdict(lambda: dict.fromkeys(_PARTS, 0.0))
    for launch, us in kernels:
        if launch.shape is not None:
            times[launch.shape][launch.part] += us
    yield "| convolutions | " + " | ".join(f"{part} µs | TFLOP/s | TB/s" for part in _PARTS) + " |"
    yield "|---|" + "--:|" * 9
    order = sorted(times.items(), key=lambda pair: -sum(pair[1].values()))
    counts = layers_of(kernels)
    for shape, found in order[:shapes]:
        cells = []
        for part in _PARTS:
            seconds = found[part] / 1e6
            work = counts[shape, part]
            cells.append(f"{found[part]:.1f}")
            cells += [f"{n * work / seconds / 1e12:.2f}" if seconds else "" for n in (shape.flops, shape.bytes)]
        yield f"| {max(counts[shape, part] for part in _PARTS)} × {shape} | " + " | ".join(cells) + " |"
    left = sum(sum(found.values()) for _, found in order[shapes:])
    if left:
        yield f"| {len(order) - shapes} more shapes, all parts | {left:.1f} |" + " |" * 8


def layers_of(kernels: Sequence[tuple[Launch, float]]) -> dict[tuple[Shape, str], int]:
    """How often each shape was computed: kernels of one computation follow one another."""
    counts: dict[tuple[Shape, str], int] = defaultdict(int)
    for key, _ in groupby(kernels, lambda pair: (pair[0].shape, pair[0].part)):
        if key[0] is not None:
            counts[key[0], key[1]] += 1
    return counts


def traced(work: Any, *, layers: bool, keep: Path) -> list[dict[str, Any]]:
    """The events of what happens there."""
    quiet_profiler()
    activities = [ProfilerActivity.CUDA, *([ProfilerActivity.CPU] if layers else [])]
    with profile(activities=activities, record_shapes=layers) as recording:
        work()
        wait_for_gpu()
    recording.export_chrome_trace(str(keep))
    events: list[dict[str, Any]] = json.loads(keep.read_text())["traceEvents"]
    return [{"args": {}, **event} for event in events]


def as_written(run: Run, batch: Batch) -> None:
    probe = TracedSteps(run.step)
    probe.begin(0, FORWARD)
    EagerGear(run.step).run(batch, _ALONE)
    probe.end()


def measured(run: Run, replays: int, folder: Path) -> tuple[list[tuple[Launch, float]], float]:
    """The kernels of a replay with their labels, and how long one takes alone."""
    gear = GraphGear(run.step)
    run.start_epoch(0)
    batch = run.step.on_device(next(run.batches.epoch(0)))
    alone = alone_ms(run, gear)
    as_written(run, batch)  # what is made only once is made
    known = launches(traced(lambda: as_written(run, batch), layers=True, keep=folder / "written.json"))

    def replay() -> None:
        for _ in range(replays):
            gear.run(batch, _ALONE)

    events = traced(replay, layers=False, keep=folder / "replayed.json")
    return labelled(replayed(events, replays), known), alone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--cases", nargs="+", default=list(CASES[:1]))
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--shapes", type=int, default=20, help="of convolutions that are listed")
    parser.add_argument("--loader", default="auto", choices=["auto", "cpu"])
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--keep", type=Path, help="a folder for the traces")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("needs a GPU: kernels of a captured step are measured")
    print(environment())
    for case in args.cases:
        run = prepare_run(
            configuration(case.removesuffix(HELD), args.data, args.loader, "", args.workers), lambda _: None
        )
        run.step.optimizer.set((1e-3, 1e-3, 1e-3), 0.9)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) if args.keep is None else args.keep / case.replace(":", "_")
            folder.mkdir(parents=True, exist_ok=True)
            kernels, alone = measured(run, args.replays, folder)
        print(f"\n{case}: {alone:.2f} ms a step alone\n", *by_kind(kernels), "", sep="\n")
        print(*by_shape(kernels, args.shapes), sep="\n", flush=True)
        run.close()
        del run
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
