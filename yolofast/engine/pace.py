"""Keeps the host a few steps ahead of the GPU, and asleep the rest of the time; and knows how long a step takes.

Left alone it would fill the GPU's queue and then wait for room in a busy loop, taking a whole core from the workers.
"""

import statistics
import time
from collections import deque
from typing import Any

import torch

_STEPS_AHEAD = 3


class Pace:
    def __init__(self, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        # Blocking: waiting for such an event is sleeping.
        self._ends: list[Any] = [torch.cuda.Event(blocking=True) for _ in range(_STEPS_AHEAD if on_gpu else 0)]  # type: ignore[no-untyped-call]
        self._steps = 0

    def step_queued(self) -> None:
        """To be called after each step; returns when the step some before it is done."""
        if not self._ends:
            return
        self._ends[self._steps % _STEPS_AHEAD].record()
        self._steps += 1
        if self._steps >= _STEPS_AHEAD:
            self._ends[self._steps % _STEPS_AHEAD].synchronize()


class StepClock:
    """Seconds from one step to the next. As a median: the first capture, and between epochs models are evaluated."""

    _NEEDED = 16

    def __init__(self) -> None:
        self._before: float | None = None
        self._times: deque[float] = deque(maxlen=self._NEEDED)

    def step_over(self) -> None:
        now = time.perf_counter()
        if self._before is not None:
            self._times.append(now - self._before)
        self._before = now

    @property
    def seconds(self) -> float | None:
        """Not known in the beginning."""
        return statistics.median(self._times) if len(self._times) == self._NEEDED else None
