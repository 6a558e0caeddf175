"""BatchNorm layers count their batches, which nobody reads but checkpoints have. A kernel per layer is too many."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class BatchCounters:
    """Those of a model's layers; ones that average over all batches so far need theirs and keep it."""

    def __init__(self, model: nn.Module) -> None:
        self._layers = [layer for layer in model.modules() if type(layer) is nn.BatchNorm2d and layer.momentum]

    @contextmanager
    def counted_together(self) -> Iterator[None]:
        """What happens here is one batch for each of the layers that learn."""
        counting: list[Any] = [layer for layer in self._layers if layer.training and layer.track_running_stats]
        counters: list[Tensor] = [layer.num_batches_tracked for layer in counting]
        for layer in counting:
            layer.num_batches_tracked = None
        try:
            yield
        finally:
            for layer, counter in zip(counting, counters, strict=True):
                layer.num_batches_tracked = counter
        if counters:
            torch._foreach_add_(counters, 1)
