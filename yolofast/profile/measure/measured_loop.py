"""The training loop that is measured: the turns of one epoch, repeated, with the sizes of their images.

A batch that is not full is skipped: it would be another step. So is one with more boxes than any before, once steps
are captured or compiled. Regions that cannot be timed inside are split by a twin: the same step, not compiled or not
captured, on the same batches.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from yolofast.profile.records import PhaseFigures
from yolofast.profile.step_phases import ASSIGN, BACKWARD, EMA, FORWARD, FUSED, GRAPH, LOSS, OPTIMIZER
from yolofast.profile.step_statistics import phase_figures
from yolofast.structures import Batch
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.gears.gears import Gear, padding_slots_of, smallest_that_holds, with_padding_slots
from yolofast.train.loop import turn
from yolofast.train.run import Run
from yolofast.train.step import StepRecord
from yolofast.train.timing import NoSampler, PhaseSampler

_Size = tuple[int, int]
_WARM_UP, _STEPS = 8, 16
"""Of a twin."""
_IN_REGION = (ASSIGN, LOSS)
_IN_GRAPH = (FORWARD, *_IN_REGION, BACKWARD, OPTIMIZER, EMA)


@dataclass
class Sizes:
    """Height and width, and how many steps had them: as a batch was loaded, and as the network got it."""

    loaded: Counter[_Size] = field(default_factory=Counter)
    used: Counter[_Size] = field(default_factory=Counter)

    def update(self, other: "Sizes") -> None:
        self.loaded.update(other.loaded)
        self.used.update(other.used)

    @property
    def in_words(self) -> str:
        """Nothing to say if there is only one."""
        if len(self.used) == 1 and self.used.keys() == self.loaded.keys():
            return ""
        sizes = [f"{height}×{width}" for height, width in sorted(self.used, key=math.prod)]
        if len(sizes) == 1:
            return sizes[0]
        side = mean_pixels(self.used) ** 0.5
        return f"{len(sizes)} sizes from {sizes[0]} to {sizes[-1]}, {side:.0f}² pixels on average"


def mean_pixels(sizes: Counter[_Size]) -> float:
    return sum(math.prod(size) * count for size, count in sizes.items()) / sizes.total()


def _size(images: Tensor) -> _Size:
    height, width = images.shape[-2:]
    return height, width


class StepLoop:
    def __init__(self, run: Run, epoch: int) -> None:
        self.run, self.epoch = run, epoch
        self.device = run.step.precision.device
        self.made = 0
        """Steps so far."""
        self.moved = 0
        """Of those, how many moved the weights."""
        run.step.record = StepRecord(self.device, len(run.batches))  # as training does, before anything is captured
        run.start_epoch(self.epoch)
        self._source: Iterator[tuple[int, Batch]] = iter(())
        self._number = -1
        """Of the last batch, in its epoch."""
        self._sizes = Sizes()
        self._slot_counts: Counter[int] = Counter()
        self._usual_slots: tuple[int, ...] = ()

    def keep_to_usual_slots(self) -> None:
        """From now on batches have the common numbers of padding slots: others would need steps of their own."""
        seldom = self._slot_counts.total() / 10
        self._usual_slots = tuple(slots for slots, count in self._slot_counts.items() if count > seldom)

    def make_room(self, steps: int) -> None:
        """If an epoch can hold so many steps, so can what is left of this one, or else the next one begins: its first
        batch takes longer."""
        left = len(self.run.batches) - self._number - 1
        if left < steps <= len(self.run.batches):
            for _ in self._source:
                pass

    def first_batch(self) -> Batch:
        """One that is full, on the device, as the step sees it. Its tensors are its own."""
        number, batch = self._next()
        inputs, resize = self.run.step.on_device(batch), self.run.resize
        inputs = inputs if resize is None else resize(inputs, self.epoch, number)
        return Batch(inputs.images.clone(memory_format=torch.preserve_format), inputs.targets, inputs.sources)

    def steps(self, count: int, gear: Gear, sampler: PhaseSampler) -> None:
        for _ in range(count):
            self._step(gear, sampler)

    def take_sizes(self) -> Sizes:
        """Of the steps since the last call."""
        sizes, self._sizes = self._sizes, Sizes()
        return sizes

    def steps_with_an_update(self, count: int, gear: Gear, sampler: PhaseSampler) -> int:
        """At least `count`, and on until the weights have moved; how many there were. It begins shortly before that,
        unless the number of batches that are added up is rising just now."""
        while (self.made + 1) % self.run.schedule.at(self.epoch, self._number).accumulate:
            self._step(gear, NoSampler())
        made, moved = self.made, self.moved
        while self.made < made + count or self.moved == moved:
            self._step(gear, sampler)
        return self.made - made

    def _step(self, gear: Gear, sampler: PhaseSampler) -> None:
        made = turn(self.run, self._next, gear, sampler, self.next_is, epoch=self.epoch, iteration=self.made)
        sampler.end()
        self.made += 1
        self.moved += made.kind.updates

    def next_is(self, batch: Batch, inputs: Batch, lr: float) -> None:
        """As the record of a run gets it."""
        self._sizes.loaded[_size(batch.images)] += 1
        self._sizes.used[_size(inputs.images)] += 1
        assert self.run.step.record is not None
        self.run.step.record.next_is(self._number)

    def _next(self) -> tuple[int, Batch]:
        found = next(self._source, None)
        if found is None:
            self._source = self._full(enumerate(self.run.batches.epoch(self.epoch)))
            found = next(self._source)
        self._number = found[0]
        return found

    def _full(self, batches: Any) -> Iterator[tuple[int, Batch]]:
        for number, batch in batches:
            if len(batch.images) != self.run.images_per_step:
                continue
            self._slot_counts[padding_slots_of(batch)] += 1
            slots = smallest_that_holds(padding_slots_of(batch), self._usual_slots or self._slot_counts)
            if slots is not None:
                yield number, with_padding_slots(batch, slots)

    def wait(self) -> None:
        """For all that was queued, asleep as far as possible: the processor's time is measured, too."""
        if self.device.type == "cuda":
            end: Any = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            end.record()
            end.synchronize()
            torch.cuda.synchronize(self.device)


class StepSplit(NamedTuple):
    parts: tuple[PhaseFigures, ...] = ()
    of: str = ""
    by: str = ""


def split_by_twin(
    chosen: GearBox, loop: StepLoop, sampler_for: Callable[[GearBox], PhaseSampler], *, in_graphs: bool
) -> StepSplit:
    """Nothing where the step itself can be looked into; `in_graphs`: graphs can."""
    closed = chosen.captured and not in_graphs
    if not closed and not chosen.compiled:
        return StepSplit()
    captured = chosen.captured and in_graphs
    twin = chosen.twin(captured=captured)
    sampler = sampler_for(twin)
    for count in (_WARM_UP, _STEPS):
        sampler.take()
        loop.steps(count, twin, sampler)
        loop.wait()
    steps = [
        {name: ms for name, ms in sample.phases.items() if name in (_IN_GRAPH if closed else _IN_REGION)}
        for sample in sampler.take()
        if GRAPH not in sample.phases
    ]
    how = "captured but not compiled" if captured else "neither compiled nor captured"
    return StepSplit(phase_figures(steps), GRAPH if closed else FUSED, f"a twin of the step that is {how}")
