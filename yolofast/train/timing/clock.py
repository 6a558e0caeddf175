"""Moments of a step: the wall clock where the CPU computes, CUDA events where a GPU does.

An event is a mark in the GPU's queue. It is read when the GPU has passed it, so nobody waits for it; what lies between
two of them is the GPU's time, idling included.
"""

import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from yolofast.train.gears.gears import captured_into


class Clock(Protocol):
    def moment(self) -> Any:
        """Now, in the order of what the device does."""

    def is_past(self, moment: Any) -> bool:
        """Without waiting."""

    def between(self, first: Any, last: Any) -> float:
        """Milliseconds; both are past."""

    def asleep(self, first: Any, last: Any) -> float:
        """Milliseconds of that in which the process did nothing, where that is known."""


class HostMoment(NamedTuple):
    wall: float
    process: float
    thread: float


class HostClock:
    """`watch_sleep` also tells computing from sleeping, for a few microseconds per moment."""

    def __init__(self, *, watch_sleep: bool = False) -> None:
        self._watch_sleep = watch_sleep

    def moment(self) -> HostMoment:
        if not self._watch_sleep:
            return HostMoment(time.perf_counter(), 0.0, 0.0)
        return HostMoment(time.perf_counter(), time.process_time(), _thread_seconds())

    def is_past(self, moment: HostMoment) -> bool:
        return True

    def between(self, first: HostMoment, last: HostMoment) -> float:
        return (last.wall - first.wall) * 1e3

    def asleep(self, first: HostMoment, last: HostMoment) -> float:
        if not self._watch_sleep:
            return 0.0
        awake = max(last.process - first.process, last.thread - first.thread)
        return max(last.wall - first.wall - awake, 0.0) * 1e3


def _thread_seconds() -> float:
    """How long this thread has run or wanted to: one that waits for a core that others have is not asleep."""
    try:
        ran, queued = Path("/proc/thread-self/schedstat").read_bytes().split()[:2]
    except (OSError, ValueError):  # only Linux has it, and not every Linux
        return time.thread_time()
    return (int(ran) + int(queued)) / 1e9


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


def clock_for(device: torch.device, *, watch_sleep: bool = False) -> Clock:
    return DeviceClock(device) if device.type == "cuda" else HostClock(watch_sleep=watch_sleep)


def can_time_graphs(device: torch.device) -> bool:
    """Whether events inside a graph can be read here, tried on a small one: old versions of torch and CUDA cannot."""
    if device.type != "cuda":
        return False
    try:
        return _timed_graph(device)
    except (RuntimeError, TypeError, ValueError):
        return False


def _timed_graph(device: torch.device) -> bool:
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
