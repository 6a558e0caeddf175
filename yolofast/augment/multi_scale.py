"""Training sizes that change from batch to batch; the network's input is resized on the device.

As published, apart from the draws: those depend on seed, epoch and iteration alone, so that a resumed run and every
rank draw the same.
"""

from yolofast.augment.draws import between, uniform, whole

_STREAM = 3
_YOLOX_STEP = 32
_YOLOX_EVERY = 10
_YOLOX_SPREAD = 5


def yolov7_size(size: int, stride: int, seed: int, epoch: int, iteration: int) -> int:
    """Half to one and a half times the size, down to a multiple of the stride; new for every batch."""
    draw = uniform(seed, epoch, [iteration], 1, _STREAM)[0]
    return max(int(between(0.5 * size, 1.5 * size + stride, draw)[0]) // stride, 1) * stride


def yolox_size(
    height: int, width: int, seed: int, epoch: int, iteration: int, steps: tuple[int, int] | None = None
) -> tuple[int, int]:
    """Height and width for ten iterations: up to five steps of 32 about the height, or from `steps` (first, last)."""
    first, last = steps or (height // _YOLOX_STEP - _YOLOX_SPREAD, height // _YOLOX_STEP + _YOLOX_SPREAD)
    draw = uniform(seed, epoch, [iteration // _YOLOX_EVERY], 1, _STREAM)[0]
    chosen = max(first + int(whole(last - first + 1, draw)[0]), 1)
    return chosen * _YOLOX_STEP, max(int(chosen * width / height), 1) * _YOLOX_STEP
