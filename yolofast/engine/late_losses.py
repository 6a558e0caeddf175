"""Losses to look at while a run goes, without waiting for the device: those of a moment ago will do.

The sums on the device are copied to pinned memory behind the steps already queued, and read when they have arrived.
"""

from typing import Any

import torch

from yolofast.engine.step import RunningLosses


class LateLosses:
    """Means of the loss terms since the last reset, as of the last copy that has arrived."""

    def __init__(self, losses: RunningLosses) -> None:
        self._sums, self._count = losses.tensors()[:2]
        self._names = losses.names
        self._on_gpu = self._sums.is_cuda
        self._seen_sums = torch.zeros(self._sums.shape, dtype=self._sums.dtype, pin_memory=self._on_gpu)
        self._seen_count = torch.zeros((), dtype=self._count.dtype, pin_memory=self._on_gpu)
        self._copied: Any = None
        self._means: dict[str, float] = {}

    def forget(self) -> None:
        """An epoch begins: what is known belongs to the last one."""
        self._means = {}
        if self._copied is not None:
            self._copied.synchronize()  # it lies behind a step that the end of the epoch has waited for
            self._copied = None

    def look(self) -> dict[str, float]:
        """The latest that is known, empty at first; sees to it that newer ones will come."""
        if self._copied is not None and not self._copied.query():
            return self._means
        if self._copied is not None:
            self._read()
        self._seen_sums.copy_(self._sums, non_blocking=True)
        self._seen_count.copy_(self._count, non_blocking=True)
        if self._on_gpu:
            self._copied = torch.cuda.current_stream().record_event()
        else:
            self._read()
        return self._means

    def _read(self) -> None:
        count = max(float(self._seen_count), 1.0)
        self._means = {name: value / count for name, value in zip(self._names, self._seen_sums.tolist(), strict=True)}
