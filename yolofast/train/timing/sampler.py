"""Times one step in so many by phase, and never waits: marks are read when the device has passed them.

Steps in between are not touched: they pay a comparison. A captured step that is timed is a graph of its own with marks
inside, which each of its replays overwrites; so they are read before the next one, or that one is not timed.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from yolofast.loader.device_loader import DeviceLoader
from yolofast.loader.quad import QuadOnDevice
from yolofast.profile.step_phases import END
from yolofast.train.step import TrainStep
from yolofast.train.timing.clock import Clock
from yolofast.train.timing.probe import Mark, Probe


@dataclass(frozen=True)
class Sample:
    """Milliseconds of one step by phase."""

    iteration: int
    phases: dict[str, float]
    asleep: dict[str, float]
    beside: dict[str, float] = field(default_factory=dict)
    """On the side stream of a loader that makes its batches on the device."""


@dataclass(frozen=True)
class _Pending:
    iteration: int
    marks: list[Mark]
    beside: list[tuple[str, Any, Any]]
    overwritten_soon: bool


class PhaseSampler:
    """`begin` before a batch is asked for, `mark` where a phase begins, `end` when the step is over."""

    def __init__(
        self, step: TrainStep, clock: Clock, *, every: int, in_graphs: bool, batches: object = None, first: int = 0,
        around_others: bool = False,
    ) -> None:  # fmt: skip
        """`batches` may be a loader whose side stream is to be timed too; `first` is the first step that may be. With
        `around_others` a graph that is not looked into is timed as a whole, and so is what happens around it."""
        self._step, self._clock, self._chosen, self._first = step, clock, ChosenSteps(every), first
        self._inside, self._around = Probe(step, clock, in_graphs=in_graphs), Probe(step, clock, in_graphs=False)
        self._probe, self._around_others = self._inside, around_others
        self._pending: deque[_Pending] = deque()
        self._samples: list[Sample] = []
        self._iteration: int | None = None
        self._beside: list[tuple[str, Any, Any]] = []
        _time_side_stream(batches, self._timed_beside)

    @property
    def looks_into_graphs(self) -> bool:
        """Not any more once capturing one with marks has failed."""
        return self._inside.in_graphs

    @property
    def phase(self) -> str:
        """The one that was begun last, in a step that is timed."""
        return self._probe.phase

    def begin(self, iteration: int, phase: str) -> None:
        chosen = iteration >= self._first and self._chosen.has(iteration)
        if not chosen and not self._around_others:
            return
        self._read()
        if any(pending.overwritten_soon for pending in self._pending):
            chosen = False
        if not chosen and not self._around_others:
            return
        self._iteration, self._beside = iteration, []
        self._probe = self._inside if chosen else self._around
        self._step.probe = self._probe
        self._probe.take()
        self._probe.mark(phase)

    def mark(self, phase: str) -> None:
        if self._iteration is not None:
            self._probe.mark(phase)

    def end(self) -> None:
        if self._iteration is None:
            return
        self._probe.mark(END)
        self._step.probe = None
        spoilt, soon = self._probe.has_captured, self._probe.has_replayed
        pending = _Pending(self._iteration, self._probe.take(), self._beside, soon)
        self._iteration = None
        if not spoilt:
            self._pending.append(pending)

    def take(self) -> list[Sample]:
        """Those that are past, since the last call."""
        self._read()
        samples, self._samples = self._samples, []
        return samples

    def end_epoch(self, epoch: int) -> None:
        """For those who write down what was sampled."""

    def _read(self) -> None:
        while self._pending and self._is_past(self._pending[0]):
            pending = self._pending.popleft()
            phases, asleep = durations(pending.marks, self._clock)
            beside: dict[str, float] = {}
            for phase, begun, done in pending.beside:
                beside[phase] = beside.get(phase, 0.0) + self._clock.between(begun, done)
            self._samples.append(Sample(pending.iteration, phases, asleep, beside))

    def _is_past(self, pending: _Pending) -> bool:
        moments = [pending.marks[-1][1], *(done for _, _, done in pending.beside)]
        return all(self._clock.is_past(moment) for moment in moments)

    @contextmanager
    def _timed_beside(self, phase: str) -> Iterator[None]:
        if self._iteration is None:
            yield
            return
        begun = self._clock.moment()
        yield
        self._beside.append((phase, begun, self._clock.moment()))


class NoSampler(PhaseSampler):
    """For runs that are not timed."""

    def __init__(self) -> None:
        pass

    def begin(self, iteration: int, phase: str) -> None:
        pass

    def mark(self, phase: str) -> None:
        pass

    def end(self) -> None:
        pass

    def take(self) -> list[Sample]:
        return []


class ChosenSteps:
    """One of `every` steps on average, about so far apart: every so many steps weights move, or an epoch begins, and
    any regular choice would meet some of these too often or never. So one of two may be two in a row: if the marks of
    the first are in a graph and not past, the second is not timed, which is better than always the same half."""

    def __init__(self, every: int) -> None:
        self.every, around = every, max(1, every // 4)
        self._gaps = (every - around, every + around) if every > 1 else (1, 1)
        self._random, self._next = random.Random(0), 0  # the same in every process, and after a resume

    def has(self, iteration: int) -> bool:
        """To be asked in their order."""
        while self._next < iteration:
            self._next += self._random.randint(*self._gaps)
        return self._next == iteration


def durations(marks: Sequence[Mark], clock: Clock) -> tuple[dict[str, float], dict[str, float]]:
    """By phase, those that come several times added up: how long, and how much of it asleep."""
    phases: dict[str, float] = {}
    asleep: dict[str, float] = {}
    for (phase, begun), (_, done) in pairwise(marks):
        phases[phase] = phases.get(phase, 0.0) + clock.between(begun, done)
        asleep[phase] = asleep.get(phase, 0.0) + clock.asleep(begun, done)
    return phases, asleep


def _time_side_stream(batches: object, timed: Callable[[str], AbstractContextManager[None]]) -> None:
    loader = batches.single if isinstance(batches, QuadOnDevice) else batches
    if isinstance(loader, DeviceLoader):
        loader.timed = timed
