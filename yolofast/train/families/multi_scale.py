"""Training sizes that change every batch (YOLOv7) or every ten batches (YOLOX); inputs are resized on the device.

As published, apart from the draws: those depend on seed, epoch and iteration alone, so a resumed run and every rank
draw the same. Boxes are shares of the image and stay as they are. There are about a dozen sizes, so a captured graph of
each is affordable.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from yolofast.augment.draws import between, uniform, whole
from yolofast.structures import Batch
from yolofast.train.families.family import Shape

_STREAM = 3
_YOLOX_STEP = 32
YOLOX_EVERY = 10
"""Batches of one size."""
_YOLOX_SPREAD = 5
Steps = tuple[int, int]
"""The least and the greatest height, in steps of 32."""


def yolov7_size(size: int, stride: int, seed: int, epoch: int, iteration: int) -> int:
    """Half to one and a half times the size, down to a multiple of the stride; new for every batch."""
    draw = uniform(seed, epoch, [iteration], 1, _STREAM)[0]
    return _multiple(between(0.5 * size, 1.5 * size + stride, draw)[0], stride)


def yolov7_range(size: int, stride: int) -> tuple[int, int]:
    """The least and the greatest of them."""
    return _multiple(0.5 * size, stride), _multiple(math.ceil(1.5 * size + stride) - 1, stride)


def _multiple(side: float, stride: int) -> int:
    return max(int(side) // stride, 1) * stride


def yolox_size(height: int, width: int, seed: int, epoch: int, iteration: int, steps: Steps | None = None) -> Shape:
    """Height and width for ten iterations: up to five steps of 32 about the height, or from `steps` (first, last)."""
    first, last = steps or _about(height)
    draw = uniform(seed, epoch, [iteration // YOLOX_EVERY], 1, _STREAM)[0]
    return _yolox_shape(first + int(whole(last - first + 1, draw)[0]), height, width)


def yolox_range(height: int, width: int, steps: Steps | None = None) -> tuple[Shape, Shape]:
    """The least and the greatest of them."""
    first, last = (_yolox_shape(side, height, width) for side in steps or _about(height))
    return first, last


def _about(height: int) -> Steps:
    return height // _YOLOX_STEP - _YOLOX_SPREAD, height // _YOLOX_STEP + _YOLOX_SPREAD


def _yolox_shape(steps: int, height: int, width: int) -> Shape:
    steps = max(steps, 1)
    return steps * _YOLOX_STEP, max(int(steps * width / height), 1) * _YOLOX_STEP


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
        size = tuple(math.ceil(side * factor / self.stride) * self.stride for side in batch.images.shape[2:])
        return _resized(batch, self.as_input(batch.images), size)


@dataclass(frozen=True, kw_only=True)
class YoloXMultiScale:
    height: int
    width: int
    steps: Steps | None
    """None: five steps about the height."""
    batches: int
    """Of an epoch: sizes are counted through from epoch to epoch."""
    seed: int
    as_input: Callable[[Tensor], Tensor]
    """Levels to what the network takes: resized levels would be no whole numbers."""

    def size(self, epoch: int, number: int) -> Shape:
        """Height and width of a batch."""
        iteration = epoch * self.batches + number
        if iteration < YOLOX_EVERY:
            return self.height, self.width
        return yolox_size(self.height, self.width, self.seed, 0, iteration, self.steps)

    def __call__(self, batch: Batch, epoch: int, number: int) -> Batch:
        return _resized(batch, self.as_input(batch.images), self.size(epoch, number))


@dataclass(frozen=True)
class GrowingScale:
    """Sizes over the run, few of them: a small image costs less and shows enough to begin with."""

    shares: tuple[float, ...]
    """By epoch, of the size trained at."""
    stride: int
    """The largest: sides are multiples of it."""
    as_input: Callable[[Tensor], Tensor]

    def __call__(self, batch: Batch, epoch: int, number: int) -> Batch:
        share, stride = self.shares[epoch], self.stride
        size = tuple(max(int(side * share / stride + 0.5), 1) * stride for side in batch.images.shape[2:])
        return _resized(batch, self.as_input(batch.images), size)


def _resized(batch: Batch, images: Tensor, size: tuple[int, ...]) -> Batch:
    if size != tuple(images.shape[2:]):
        images = functional.interpolate(images, size=size, mode="bilinear", align_corners=False)
    return replace(batch, images=images.contiguous(memory_format=torch.channels_last))
