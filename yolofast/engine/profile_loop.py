"""The turns of training – loader, schedule, copies, gear, record – without epochs around them.

They are those of one epoch, again and again. A batch that is not full is left out: it would be another step. So is one
with more boxes than any before, once a gear has captured or compiled its steps.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from yolofast.engine.gears import Gear
from yolofast.engine.places import places_of, smallest_that_holds, with_places
from yolofast.engine.profile_sampler import NoSampler, PhaseSampler
from yolofast.engine.profile_sizes import Sizes
from yolofast.engine.setup import Run
from yolofast.engine.step_record import StepRecord
from yolofast.engine.trainer import turn
from yolofast.structures import Batch


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
        self._seen_places: Counter[int] = Counter()
        self._usual_places: tuple[int, ...] = ()

    def keep_to_usual_places(self) -> None:
        """From now on batches have as many places for boxes as came often: other steps would have to be captured or
        compiled."""
        seldom = self._seen_places.total() / 10
        self._usual_places = tuple(places for places, count in self._seen_places.items() if count > seldom)

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
        seen = self.run.resize(self.run.step.on_device(batch), self.epoch, number)
        return Batch(seen.images.clone(memory_format=torch.preserve_format), seen.targets, seen.sources)

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
        made = turn(self.run, self._next, gear, sampler, self, epoch=self.epoch, iteration=self.made)
        sampler.end()
        self.made += 1
        self.moved += made.kind.updates

    def next_is(self, batch: Batch, seen: Batch, lr: float) -> None:
        """As the record of a run is told."""
        self._sizes.add(batch.images, seen.images)
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
            self._seen_places[places_of(batch)] += 1
            places = smallest_that_holds(places_of(batch), self._usual_places or self._seen_places)
            if places is not None:
                yield number, with_places(batch, places)

    def wait(self) -> None:
        """For all that was queued, asleep as far as possible: the processor's time is measured, too."""
        if self.device.type == "cuda":
            end: Any = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            end.record()
            end.synchronize()
            torch.cuda.synchronize(self.device)
