"""YOLOX's multi-scale training: another size every ten batches, the width following the height.

The first ten batches of a run have the size trained at, as published. Boxes are shares of the image and stay as they
are. There are about a dozen sizes, so that a captured graph of each is affordable.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from yolofast.augment.multi_scale import YOLOX_EVERY, yolox_size
from yolofast.structures import Batch


@dataclass(frozen=True, kw_only=True)
class YoloXMultiScale:
    height: int
    width: int
    steps: tuple[int, int] | None
    """The least and the greatest height in steps of 32; None: five steps about the height."""
    batches: int
    """Of an epoch: sizes are counted through from epoch to epoch."""
    seed: int
    as_input: Callable[[Tensor], Tensor]
    """Levels to what the network takes: resized levels would be no whole numbers."""

    def size(self, epoch: int, number: int) -> tuple[int, int]:
        """Height and width of a batch."""
        iteration = epoch * self.batches + number
        if iteration < YOLOX_EVERY:
            return self.height, self.width
        return yolox_size(self.height, self.width, self.seed, 0, iteration, self.steps)

    def __call__(self, batch: Batch, epoch: int, number: int) -> Batch:
        size, images = self.size(epoch, number), self.as_input(batch.images)
        if size != tuple(images.shape[2:]):
            images = functional.interpolate(images, size=size, mode="bilinear", align_corners=False)
        return replace(batch, images=images.contiguous(memory_format=torch.channels_last))
