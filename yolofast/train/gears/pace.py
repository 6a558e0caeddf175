"""Keeps the host a few steps ahead of the GPU, and asleep the rest of the time; and knows how long a step takes.

Left alone it would fill the GPU's queue and then wait for room in a busy loop, taking a whole core from the workers.
"""

import statistics
import time
from collections import deque
from typing import Any

import torch

_STEPS_AHEAD, _LONG_STEPS_AHEAD = 3, 2
_LONG_STEP = 0.05
"""Seconds. With three long steps of a large graph (YOLOX-L) in the queue launching took a whole core, with two a tenth
of one, and steps took as long."""


class Pace:
    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._ends: deque[Any] = deque()
        self._clock = StepClock()

    @property
    def step_seconds(self) -> float | None:
        """Not known in the beginning."""
        return self._clock.seconds

    def step_queued(self) -> None:
        """To be called after each step; returns when the step some before it is done."""
        if self._on_gpu:
            end: Any = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # waiting for it is sleeping
            end.record()
            self._ends.append(end)
            while len(self._ends) >= self._steps_ahead:
                self._ends.popleft().synchronize()
        self._clock.step_over()

    @property
    def _steps_ahead(self) -> int:
        return _LONG_STEPS_AHEAD if (self._clock.seconds or 0.0) > _LONG_STEP else _STEPS_AHEAD


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
