"""Steps timed by phase while a run trains, without waiting for the device.

A clock gives moments: the wall clock where the CPU computes, CUDA events where a GPU does. An event is a mark in the
GPU's queue, read when the GPU has passed it; what lies between two of them is the GPU's time, idle time included.

A sampler chooses the steps to time (`probe.py` marks their phases). Steps in between only pay a comparison. A captured
step that is timed is a graph of its own with marks inside. Each replay overwrites them, so they are read before the
next one, or that one is not timed.
"""

import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from yolofast.loader.device_loader import DeviceLoader
from yolofast.loader.quad import QuadOnDevice
from yolofast.profile.step_phases import END
from yolofast.train.gears.gears import captured_into
from yolofast.train.gears.probe import Mark, Probe
from yolofast.train.step import TrainStep


class HostMoment(NamedTuple):
    wall: float
    process: float
    thread: float
    sleeps: int | None
    """How often this thread has given up its core by itself; None: unknown."""


class HostClock:
    """`watch_sleep` also tells computing from sleeping, for a few microseconds per moment."""

    def __init__(self, *, watch_sleep: bool = False) -> None:
        self._watch_sleep = watch_sleep

    def moment(self) -> HostMoment:
        """Now, in the order of what the device does."""
        wall = time.perf_counter()
        if not self._watch_sleep:
            return HostMoment(wall, wall, wall, None)
        return HostMoment(wall, time.process_time(), _thread_seconds(), _times_slept())

    def is_past(self, moment: HostMoment) -> bool:
        """Without waiting."""
        return True

    def between(self, first: HostMoment, last: HostMoment) -> float:
        """Milliseconds; both are past."""
        return (last.wall - first.wall) * 1e3

    def asleep(self, first: HostMoment, last: HostMoment) -> float:
        """Milliseconds of that in which the process did nothing, where that is known. A core that the machine beneath
        a virtual one took away is nobody's time: whoever has not given up a core meanwhile has not slept."""
        if last.sleeps is not None and last.sleeps == first.sleeps:
            return 0.0
        awake = max(last.process - first.process, last.thread - first.thread)
        return max(last.wall - first.wall - awake, 0.0) * 1e3


def _thread_seconds() -> float:
    """How long this thread has run or waited for a core: it is not asleep while others have the core."""
    try:
        ran, queued = Path("/proc/thread-self/schedstat").read_bytes().split()[:2]
    except (OSError, ValueError):  # only Linux has it, and not every Linux
        return time.thread_time()
    return (int(ran) + int(queued)) / 1e9


def _times_slept() -> int | None:
    try:
        import resource

        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    except (ImportError, AttributeError):  # only Linux counts by thread
        return None


class DeviceClock:
    """Events on the current stream; while a graph is captured they become part of it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def moment(self) -> Any:
        more: dict[str, bool] = {"external": True} if torch.cuda.is_current_stream_capturing() else {}
        event: Any = torch.cuda.Event(enable_timing=True, **more)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def is_past(self, moment: Any) -> bool:
        return bool(moment.query())

    def between(self, first: Any, last: Any) -> float:
        return float(first.elapsed_time(last))

    def asleep(self, first: Any, last: Any) -> float:
        return 0.0


Clock = HostClock | DeviceClock


def clock_for(device: torch.device, *, watch_sleep: bool = False) -> Clock:
    return DeviceClock(device) if device.type == "cuda" else HostClock(watch_sleep=watch_sleep)


def can_time_graphs(device: torch.device) -> bool:
    """Whether events inside a graph can be read here, tried on a small one: old versions of torch and CUDA cannot."""
    if device.type != "cuda":
        return False
    try:
        clock, values = DeviceClock(device), torch.zeros(2**16, device=device)
        values.add_(1)
        torch.cuda.synchronize(device)
        graph = torch.cuda.CUDAGraph()
        with captured_into(graph):
            first = clock.moment()
            values.add_(1)
            last = clock.moment()
        for _ in range(2):
            graph.replay()
        torch.cuda.synchronize(device)
        return 0 < clock.between(first, last) < 1e3
    except (RuntimeError, TypeError, ValueError):
        return False


class DataWait:
    """For how long the device had nothing to do because no batch was there.

    The host is some steps ahead of a GPU: a batch that comes late costs nothing while these are at work.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: deque[tuple[Any, Any]] = deque()
        self._ms = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Around asking for a batch."""
        begun = self._clock.moment()
        yield
        self._pending.append((begun, self._clock.moment()))

    @property
    def seconds(self) -> float:
        """So far, as the device has got there. Waits for nothing."""
        while self._pending and self._clock.is_past(self._pending[0][1]):
            self._ms += self._clock.between(*self._pending.popleft())
        return self._ms / 1e3


@dataclass(frozen=True)
class StepSample:
    """Milliseconds of one step by phase."""

    iteration: int
    phases: dict[str, float]
    asleep: dict[str, float]
    side_stream: dict[str, float] = field(default_factory=dict)
    """On the side stream of a loader that makes its batches on the device."""


@dataclass(frozen=True)
class _Pending:
    iteration: int
    marks: list[Mark]
    side_stream: list[tuple[str, Any, Any]]
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
        self._inside, self._around = (Probe(step, clock.moment, in_graphs=inside) for inside in (in_graphs, False))
        self._probe, self._around_others = self._inside, around_others
        self._pending: deque[_Pending] = deque()
        self._samples: list[StepSample] = []
        self._iteration: int | None = None
        self._side_stream: list[tuple[str, Any, Any]] = []
        loader = batches.single if isinstance(batches, QuadOnDevice) else batches
        if isinstance(loader, DeviceLoader):
            loader.timed = self._timed_on_side_stream

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
        if chosen or self._around_others:
            self._read()
            chosen = chosen and not any(pending.overwritten_soon for pending in self._pending)
        if not chosen and not self._around_others:
            return
        self._iteration, self._side_stream = iteration, []
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
        pending = _Pending(self._iteration, self._probe.take(), self._side_stream, soon)
        self._iteration = None
        if not spoilt:
            self._pending.append(pending)

    def take(self) -> list[StepSample]:
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
            side_stream: dict[str, float] = {}
            for phase, begun, done in pending.side_stream:
                side_stream[phase] = side_stream.get(phase, 0.0) + self._clock.between(begun, done)
            self._samples.append(StepSample(pending.iteration, phases, asleep, side_stream))

    def _is_past(self, pending: _Pending) -> bool:
        moments = [pending.marks[-1][1], *(done for _, _, done in pending.side_stream)]
        return all(self._clock.is_past(moment) for moment in moments)

    @contextmanager
    def _timed_on_side_stream(self, phase: str) -> Iterator[None]:
        if self._iteration is None:
            yield
            return
        begun = self._clock.moment()
        yield
        self._side_stream.append((phase, begun, self._clock.moment()))


class NoSampler(PhaseSampler):
    """For runs that are not timed: `mark` and `end` do nothing where no step was begun."""

    def __init__(self) -> None:
        self._iteration, self._pending, self._samples = None, deque(), []

    def begin(self, iteration: int, phase: str) -> None:
        pass


class ChosenSteps:
    """One of `every` steps on average, about so far apart. Every so many steps weights move, or an epoch begins, and
    any regular choice would meet some of these too often or never. So one of two may be two in a row. If the marks of
    the first are in a graph and not past, the second is not timed, which is better than always the same half."""

    def __init__(self, every: int) -> None:
        self.every, around = every, max(1, every // 4)
        self._gaps = (every - around, every + around) if every > 1 else (1, 1)
        self._random, self._next = random.Random(0), 0  # the same in every process, and after a resume

    def has(self, iteration: int) -> bool:
        """To be called in their order."""
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
