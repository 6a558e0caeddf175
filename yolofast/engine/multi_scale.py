"""`--multi-scale`: every batch is resized on the device, to half to one and a half times the size trained at.

Boxes are shares of the image and stay as they are. There are about as many sizes as strides in an image, so that a
captured graph of each is affordable.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from yolofast.augment.multi_scale import yolov7_size
from yolofast.structures import Batch


@dataclass(frozen=True, kw_only=True)
class MultiScale:
    size: int
    """The size trained at, to which the sizes drawn are relative."""
    stride: int
    """The largest: sides are multiples of it."""
    seed: int
    as_input: Callable[[Tensor], Tensor]
    """Levels to what the network takes: resized levels would be no whole numbers."""

    def __call__(self, batch: Batch, epoch: int, number: int) -> Batch:
        """The batch of that number, which is on the device already."""
        factor = yolov7_size(self.size, self.stride, self.seed, epoch, number) / self.size
        height, width = (math.ceil(side * factor / self.stride) * self.stride for side in batch.images.shape[2:])
        images = self.as_input(batch.images)
        if (height, width) != tuple(images.shape[2:]):
            images = functional.interpolate(images, size=(height, width), mode="bilinear", align_corners=False)
        return replace(batch, images=images.contiguous(memory_format=torch.channels_last))


def as_it_is(batch: Batch, epoch: int, number: int) -> Batch:
    """Without `--multi-scale`."""
    return batch
