"""`--batch-size -1`: the largest batch that fits, found by measuring.

Memory grows linearly with the images of a batch on top of what the model takes, so a few small batches tell the line,
and the batch that meets the limit is measured itself before it is believed. The limit is a share of what there is: the
allocator needs slack, and other batches have more boxes.
"""

import itertools
from collections.abc import Callable

import numpy as np
import torch

MemoryOf = Callable[[int], int]
"""The bytes a training step with so many images takes; raises `torch.OutOfMemoryError` where there are not enough."""

SHARE = 0.85
_FIRST, _MOST = 4, 4096
_EIGHT = 8
_POINTS = 3  # of the line, the last ones: small batches take other algorithms
_STEP_DOWN = 0.8
_ROUNDING = 1e-6


def largest_batch(memory_of: MemoryOf, available: int, *, multiple: int = 1, most: int = _MOST) -> int | None:
    """At most `most` images that take no more than 85 % of `available` bytes; None if not even the fewest do.

    A multiple of `multiple`, and of 8 too where that is possible.
    """
    limit = int(available * SHARE)
    measured = _measure(memory_of, limit, multiple, most)
    batch = _rounded(min(_on_line(measured, limit), most), multiple)
    while batch:
        if batch not in measured:
            measured[batch] = _taken(memory_of, batch)
        if measured[batch] <= limit:
            return batch
        batch = _rounded(int(batch * _STEP_DOWN), multiple)
    return None


def _measure(memory_of: MemoryOf, limit: int, multiple: int, most: int) -> dict[int, float]:
    """Bytes by batch size: ever larger ones until half of the limit is taken, or until one does not fit."""
    measured: dict[int, float] = {}
    first = max(_FIRST // multiple, 1) * multiple
    for size in itertools.takewhile(lambda size: size <= max(first, most), (first * 2**n for n in itertools.count())):
        measured[size] = _taken(memory_of, size)
        if measured[size] > limit / 2 and len(measured) > 1:
            break
    return measured


def _taken(memory_of: MemoryOf, batch: int) -> float:
    try:
        return memory_of(batch)
    except torch.OutOfMemoryError:
        return float("inf")


def _on_line(measured: dict[int, float], limit: int) -> int:
    """The batch at which the line through the last points reaches the limit."""
    points = [(size, taken) for size, taken in measured.items() if taken < float("inf")][-_POINTS:]
    if len(points) < 2:  # no line: what fits a limit in proportion fits it certainly
        return int(points[0][0] * limit / points[0][1]) if points else min(measured)
    sizes, taken = np.array(points).T
    slope, start = np.polyfit(sizes, taken, 1)
    return int((limit - start) / slope + _ROUNDING) if slope > 0 else _MOST


def _rounded(batch: int, multiple: int) -> int:
    """Down to a multiple of what the run needs, and of 8 where that leaves something."""
    both = int(np.lcm(multiple, _EIGHT))
    unit = both if batch >= both else multiple
    return max(batch, 0) // unit * unit
