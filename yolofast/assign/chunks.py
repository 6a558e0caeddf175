"""Memory for assigners that does not grow with the batch: too many pairs, and some images are taken at a time.

Images do not influence one another's assignment, so the result is the same; the limit depends on shapes only.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from yolofast.structures import Targets

# Pairs of box and prediction looked at in one go.
MAX_PAIRS = 24_000_000


def some_images_at_a_time(
    match: Callable[[slice], tuple[Tensor, ...]], batch: int, pairs_per_image: int
) -> tuple[Tensor, ...]:
    """The tensors `match` returns for a range of images, joined over the batch."""
    images = max(1, MAX_PAIRS // max(1, pairs_per_image))
    parts = [match(slice(start, start + images)) for start in range(0, batch, images)]
    return parts[0] if len(parts) == 1 else tuple(torch.cat(column) for column in zip(*parts, strict=True))


def targets_of(targets: Targets, images: slice) -> Targets:
    return Targets(targets.boxes[images], targets.labels[images], targets.valid[images])
