"""Training sizes that change from batch to batch; the network's input is resized on the device.

As published, apart from the draws: those depend on seed, epoch and iteration alone, so that a resumed run and every
rank draw the same.
"""

import math

from yolofast.augment.draws import between, uniform, whole

_STREAM = 3
_YOLOX_STEP = 32
YOLOX_EVERY = 10
"""Batches of one size."""
_YOLOX_SPREAD = 5


def yolov7_size(size: int, stride: int, seed: int, epoch: int, iteration: int) -> int:
    """Half to one and a half times the size, down to a multiple of the stride; new for every batch."""
    draw = uniform(seed, epoch, [iteration], 1, _STREAM)[0]
    return _multiple(between(0.5 * size, 1.5 * size + stride, draw)[0], stride)


def yolov7_range(size: int, stride: int) -> tuple[int, int]:
    """The least and the greatest of them."""
    return _multiple(0.5 * size, stride), _multiple(math.ceil(1.5 * size + stride) - 1, stride)


def _multiple(side: float, stride: int) -> int:
    return max(int(side) // stride, 1) * stride


def yolox_size(
    height: int, width: int, seed: int, epoch: int, iteration: int, steps: tuple[int, int] | None = None
) -> tuple[int, int]:
    """Height and width for ten iterations: up to five steps of 32 about the height, or from `steps` (first, last)."""
    first, last = steps or _about(height)
    draw = uniform(seed, epoch, [iteration // YOLOX_EVERY], 1, _STREAM)[0]
    return _yolox_shape(first + int(whole(last - first + 1, draw)[0]), height, width)


def yolox_range(
    height: int, width: int, steps: tuple[int, int] | None = None
) -> tuple[tuple[int, int], tuple[int, int]]:
    """The least and the greatest of them."""
    first, last = (_yolox_shape(side, height, width) for side in steps or _about(height))
    return first, last


def _about(height: int) -> tuple[int, int]:
    return height // _YOLOX_STEP - _YOLOX_SPREAD, height // _YOLOX_STEP + _YOLOX_SPREAD


def _yolox_shape(steps: int, height: int, width: int) -> tuple[int, int]:
    steps = max(steps, 1)
    return steps * _YOLOX_STEP, max(int(steps * width / height), 1) * _YOLOX_STEP
