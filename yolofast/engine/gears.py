"""The same step at three speeds: as written, compiled, or captured as a CUDA graph.

Gears never change results beyond rounding. One that cannot start says why, and the next lower one is used.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from yolofast.engine.step import StepKind, TrainStep
from yolofast.structures import Batch, Targets

GearName = Literal["eager", "compile", "graph"]
_WARM_UP_RUNS = 3


class Gear(Protocol):
    name: GearName

    def run(self, batch: Batch, kind: StepKind) -> None:
        """One step."""


class EagerGear:
    name: GearName = "eager"

    def __init__(self, step: TrainStep) -> None:
        self.step = step

    def run(self, batch: Batch, kind: StepKind) -> None:
        self.step.run(batch.images, batch.targets, kind)


class CompiledGear(EagerGear):
    name: GearName = "compile"

    def __init__(self, step: TrainStep) -> None:
        super().__init__(step)
        # Replaced on this one object: `run` then calls the compiled form.
        step.loss_of = torch.compile(step.loss_of, fullgraph=True, dynamic=False)  # type: ignore[method-assign]


class GraphGear:
    """One graph for each shape of batch and kind of step; batches are copied to where the graph reads them."""

    name: GearName = "graph"

    def __init__(self, step: TrainStep, batch_size: int) -> None:
        self.step, self._batch_size = step, batch_size
        self._graphs: dict[tuple[object, ...], _Captured] = {}

    def run(self, batch: Batch, kind: StepKind) -> None:
        if len(batch.images) != self._batch_size:  # the last batch of an epoch: too rare to be worth a graph
            self.step.run(batch.images, batch.targets, kind)
            return
        key = (batch.images.shape, batch.images.dtype, batch.targets.valid.shape, kind)
        if key not in self._graphs:
            self._graphs[key] = _Captured(self.step, batch, kind)
        self._graphs[key].replay(batch)


class _Captured:
    def __init__(self, step: TrainStep, batch: Batch, kind: StepKind) -> None:
        self._images = torch.empty_like(batch.images)
        self._targets = Targets(*(torch.empty_like(t) for t in _parts(batch.targets)))
        self._fill(batch)
        step.prepare_gradients(kind)
        before = [tensor.clone() for tensor in step.tensors()]
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP_RUNS):
                step.run(self._images, self._targets, kind)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            step.run(self._images, self._targets, kind)
        # What was tried was not training.
        for tensor, value in zip(step.tensors(), before, strict=True):
            tensor.copy_(value)

    def _fill(self, batch: Batch) -> None:
        self._images.copy_(batch.images, non_blocking=True)
        for own, given in zip(_parts(self._targets), _parts(batch.targets), strict=True):
            own.copy_(given, non_blocking=True)

    def replay(self, batch: Batch) -> None:
        self._fill(batch)
        self._graph.replay()


def _parts(targets: Targets) -> tuple[Tensor, Tensor, Tensor]:
    return targets.boxes, targets.labels, targets.valid


def choose_gear(name: str, step: TrainStep, batch_size: int, say: Callable[[str], None]) -> Gear:
    """The gear asked for; `auto` takes the fastest there is: graphs on a GPU, the step as written on the CPU."""
    on_gpu = step.precision.device.type == "cuda"
    if name == "auto":
        name = "graph" if on_gpu else "eager"
    if name == "graph" and not on_gpu:
        say("gear: eager (graphs need a GPU)")
        return EagerGear(step)
    say(f"gear: {name}")
    if name == "compile":
        return CompiledGear(step)
    return GraphGear(step, batch_size) if name == "graph" else EagerGear(step)
