"""The same step at three speeds: as written, compiled, or captured as a CUDA graph.

Gears never change results beyond rounding; `gear_box.py` says which one is used when. The first batch of a kind is
learnt from as written, which loads and tunes what its kernels need; the second is captured. A graph is captured beside
other threads of the process, and a capture that fails leaves nothing behind. What is compiled or captured is for one
number of padding slots for boxes; batches come with 16, 32, 64 … of them.
"""

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from yolofast.profile.step_phases import GRAPH
from yolofast.structures import Batch, Targets
from yolofast.train.step import LossOf, StepKind, StepProbe, TrainStep


@contextmanager
def captured_into(graph: Any, pool: Any = None) -> Iterator[None]:
    """Only this thread must leave the driver alone meanwhile: a loader's makes plans, in pinned memory it asks for."""
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    before = generator.clone_state()
    try:
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            yield
    except BaseException:  # a capture that fails leaves the generator capturing; the next random number would raise
        generator.graphsafe_set_state(before)
        raise


GearName = Literal["eager", "compile", "graph"]
WorthTuning = Callable[[Batch], bool]
"""Whether batches like this one come so often that cuDNN shall measure which algorithms are the fastest for them."""


class Gear(Protocol):
    def run(self, batch: Batch, kind: StepKind) -> None:
        """One step."""


class EagerGear:
    """The step as written, or with a compiled way from images to losses."""

    def __init__(
        self, step: TrainStep, loss_of: LossOf | None = None, worth_tuning: WorthTuning = lambda batch: True
    ) -> None:
        self.step, self._loss_of, self._worth_tuning = step, loss_of, worth_tuning

    def run(self, batch: Batch, kind: StepKind) -> None:
        with tuned_convolutions(self._worth_tuning(batch)):
            self.step.run(batch.images, batch.targets, kind, self._loss_of)


class GraphPool:
    """Memory that graphs share: one at a time runs, and what outlives a step has memory of its own."""

    def __init__(self) -> None:
        self._handle: Any = None

    @property
    def handle(self) -> Any:
        if self._handle is None:
            self._handle = torch.cuda.graph_pool_handle()
        return self._handle


class GraphGear:
    """One graph for each shape of batch, kind of step and loss; batches are copied to where the graph reads them."""

    def __init__(
        self, step: TrainStep, loss_of: LossOf | None = None, pool: GraphPool | None = None,
        worth_tuning: WorthTuning = lambda batch: True,
    ) -> None:  # fmt: skip
        self.step, self._loss_of, self._pool, self._worth_tuning = step, loss_of, pool or GraphPool(), worth_tuning
        self._graphs: dict[_Key, _Captured] = {}
        self._ready: set[_Key] = set()
        """Kinds of batches that were learnt from as written: all that is loaded, made or tuned once is there."""
        self._version = step.version
        self._stream: Any = None

    @property
    def captured(self) -> int:
        """How many graphs there are so far."""
        return len(self._graphs)

    @property
    def prepared(self) -> int:
        """Rises with every step that was not a replay."""
        return len(self._graphs) + len(self._ready)

    def slots_captured(self, batch: Batch, kind: StepKind) -> list[int]:
        """For how many padding slots there are graphs of batches that are like this one in all else."""
        own = self._key(batch, kind)
        return [key.slots for key in self._graphs if key._replace(slots=own.slots) == own]

    def run(self, batch: Batch, kind: StepKind) -> None:
        as_written = self._key(batch, kind)._replace(timed=False)
        if not self.has(batch, kind) and as_written not in self._ready:
            with tuned_convolutions(self._worth_tuning(batch)), without_probe(self.step):
                self._run_as_written(batch, kind)
            self._ready.add(as_written)
            if self.step.probe is not None:
                self.step.probe.captured()  # this was not a step like others
            return
        while not self.has(batch, kind):
            self.capture(batch, kind)
        self._graphs[self._key(batch, kind)].replay(batch, self.step.probe)

    def has(self, batch: Batch, kind: StepKind) -> bool:
        """Whether there is a graph for it."""
        if self._version != self.step.version:
            self._graphs.clear()  # they move other weights than are to be moved now
            self._ready.clear()
            self._version = self.step.version
        return self._key(batch, kind) in self._graphs

    def capture(self, batch: Batch, kind: StepKind) -> None:
        """Nothing is computed. Such a step was made as written before: kernels and plans are there, as none can be made
        now."""
        probe = self.step.probe
        try:
            # cuDNN takes again what it took for the step as written. To measure now would end the capture.
            untuned = tuned_convolutions(False)
            with untuned, nullcontext() if self._timed else without_probe(self.step):
                made = _Captured(self.step, batch, kind, self._loss_of, self._pool.handle)
            self._graphs[self._key(batch, kind)] = made
        except Exception:
            if probe is None or not self._timed:
                raise
            probe.in_graphs = False  # training continues without being looked into
        finally:
            if probe is not None:
                probe.captured()  # or tried to: this was not a step like others

    @property
    def _timed(self) -> bool:
        """Marks are part of a graph: a step that is timed has its own."""
        return self.step.probe is not None and self.step.probe.in_graphs

    def _key(self, batch: Batch, kind: StepKind) -> "_Key":
        images, slots = batch.images, padding_slots_of(batch)
        return _Key(images.shape, images.dtype, slots, kind, id(self.step.criterion), self._timed)

    def _run_as_written(self, batch: Batch, kind: StepKind) -> None:
        """On a stream of its own: what outlives a step on the default stream would keep graphs from being captured."""
        if self.step.precision.device.type != "cuda":
            self.step.run(batch.images, batch.targets, kind, self._loss_of)
            return
        current = torch.cuda.current_stream()
        if self._stream is None:
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            self.step.run(batch.images, batch.targets, kind, self._loss_of)
        current.wait_stream(self._stream)


class _Key(NamedTuple):
    images: torch.Size
    dtype: torch.dtype
    slots: int
    kind: StepKind
    criterion: int
    timed: bool


class _Captured:
    """Of a step that was made as written before: capturing it computes nothing, so nothing is learnt from it twice."""

    def __init__(self, step: TrainStep, batch: Batch, kind: StepKind, loss_of: LossOf | None, pool: Any) -> None:
        self._images = torch.empty_like(batch.images)
        self._targets = Targets(*(torch.empty_like(t) for t in parts_of(batch.targets)))
        step.prepare_gradients(kind)
        self._graph = torch.cuda.CUDAGraph()
        with captured_into(self._graph, pool):
            step.run(self._images, self._targets, kind, loss_of)
        self._marks: Sequence[Any] = () if step.probe is None else step.probe.captured()

    def _fill(self, batch: Batch) -> None:
        self._images.copy_(batch.images, non_blocking=True)
        for own, given in zip(parts_of(self._targets), parts_of(batch.targets), strict=True):
            own.copy_(given, non_blocking=True)

    def replay(self, batch: Batch, probe: StepProbe | None) -> None:
        self._fill(batch)
        if probe is not None and not self._marks:  # with marks inside, each part has its own row
            probe.mark(GRAPH)
        self._graph.replay()
        if probe is not None:
            probe.replayed(self._marks)


@contextmanager
def without_probe(step: TrainStep) -> Iterator[None]:
    """What happens here is not timed."""
    probe, step.probe = step.probe, None
    try:
        yield
    finally:
        step.probe = probe


class Changing(Protocol):
    def tensors(self) -> list[Tensor]:
        """What a step changes."""


@contextmanager
def tried_only(step: Changing) -> Iterator[None]:
    """What happens here was not training, whether it works or not."""
    before = [tensor.clone() for tensor in step.tensors()]
    try:
        yield
    finally:
        for tensor, value in zip(step.tensors(), before, strict=True):
            tensor.copy_(value)


@contextmanager
def tuned_convolutions(tuned: bool = True) -> Iterator[None]:
    """cuDNN measures which algorithm is the fastest: seconds for each shape, so it has to come often."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, tuned
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def parts_of(targets: Targets) -> tuple[Tensor, Tensor, Tensor]:
    return targets.boxes, targets.labels, targets.valid


def padding_slots_of(batch: Batch) -> int:
    return batch.targets.valid.shape[1]


def with_padding_slots(batch: Batch, slots: int) -> Batch:
    """The same boxes with empty slots behind them; a batch that has as many already stays as it is."""
    missing = slots - padding_slots_of(batch)
    if missing <= 0:
        return batch
    pad, (boxes, *rest) = nn.functional.pad, parts_of(batch.targets)
    return replace(batch, targets=Targets(pad(boxes, (0, 0, 0, missing)), *(pad(one, (0, missing)) for one in rest)))


def empty_targets(images: int, slots: int, device: torch.device | str) -> Targets:
    """Nothing on any image."""
    boxes = torch.zeros(images, slots, 4, device=device)
    return Targets(boxes, boxes[..., 0].long(), boxes[..., 0].bool())


def smallest_that_holds(slots: int, choices: Iterable[int]) -> int | None:
    return min((choice for choice in choices if choice >= slots), default=None)


_TIMED_STEPS = 16
_STEPS_AHEAD, _LONG_STEPS_AHEAD = 3, 2
_LONG_STEP = 0.05
"""Seconds. With three long steps of a large graph (YOLOX-L) in the queue launching took a whole core. With two it took
a tenth of one, and steps took as long."""


class Pace:
    """Keeps the host a few steps ahead of the GPU, and asleep the rest of the time; knows how long a step takes.

    Left alone the host would fill the GPU's queue and then wait for room in a busy loop, taking a whole core from the
    workers.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._ends: deque[Any] = deque()
        self._before: float | None = None
        self._times: deque[float] = deque(maxlen=_TIMED_STEPS)

    @property
    def step_seconds(self) -> float | None:
        """From one step to the next; not known in the beginning.

        As a median: the first steps capture, and between epochs models are evaluated.
        """
        return statistics.median(self._times) if len(self._times) == _TIMED_STEPS else None

    def step_queued(self) -> None:
        """To be called after each step; returns when the step some before it is done."""
        if self._on_gpu:
            end: Any = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # waiting for it is sleeping
            end.record()
            self._ends.append(end)
            ahead = _LONG_STEPS_AHEAD if (self.step_seconds or 0.0) > _LONG_STEP else _STEPS_AHEAD
            while len(self._ends) >= ahead:
                self._ends.popleft().synchronize()
        now = time.perf_counter()
        if self._before is not None:
            self._times.append(now - self._before)
        self._before = now
