"""Places for boxes. Batches come with 16, 32, 64 … of them, and what is compiled or captured is for one number."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import nn

from yolofast.structures import Batch, Targets


def places_of(batch: Batch) -> int:
    return batch.targets.valid.shape[1]


def with_places(batch: Batch, places: int) -> Batch:
    """The same boxes with empty places behind them; a batch that has as many already stays as it is."""
    missing = places - places_of(batch)
    if missing <= 0:
        return batch
    boxes, labels, valid = batch.targets.boxes, batch.targets.labels, batch.targets.valid
    pad = nn.functional.pad
    more = Targets(pad(boxes, (0, 0, 0, missing)), pad(labels, (0, missing)), pad(valid, (0, missing)))
    return replace(batch, targets=more)


def empty_targets(images: int, places: int, device: torch.device | str) -> Targets:
    """Nothing on any image."""
    return Targets(
        torch.zeros(images, places, 4, device=device),
        torch.zeros(images, places, dtype=torch.int64, device=device),
        torch.zeros(images, places, dtype=torch.bool, device=device),
    )


def smallest_that_holds(places: int, choices: Iterable[int]) -> int | None:
    return min((choice for choice in choices if choice >= places), default=None)
