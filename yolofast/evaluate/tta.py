"""Test-time augmentation: each image is looked at in three sizes, once mirrored, and all predictions are joined.

Suppression afterwards sorts out which of them to keep. It takes about 2.1 times as long as one look.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

_LOOKS = ((1.0, False), (0.83, True), (0.67, False))
"""Scale, and whether left and right are swapped."""


def predict_augmented(
    predict: Callable[[Tensor], Tensor], images: Tensor, stride: int, fill: float = 114 / 255
) -> Tensor:
    """Predictions `[B, n, 5 + nc]` of all looks, one after the other, in pixels of `images` `[B, 3, H, W]`.

    `predict` decodes what the network says to images whose sides are multiples of `stride`, the network's largest.
    `fill` is the grey that images are padded with, in the units of `images`.
    """
    return torch.cat([_look(predict, images, stride, fill, scale, mirrored) for scale, mirrored in _LOOKS], dim=1)


def _look(
    predict: Callable[[Tensor], Tensor], images: Tensor, stride: int, fill: float, scale: float, mirrored: bool
) -> Tensor:
    height, width = images.shape[2:]
    low, narrow = round(height * scale), round(width * scale)
    view = images.flip(3) if mirrored else images
    if (low, narrow) != (height, width):
        view = F.interpolate(view, size=(low, narrow), mode="bilinear", align_corners=False)
        view = F.pad(view, (0, -narrow % stride, 0, -low % stride), value=fill)
    found = predict(view)
    # Sides are whole pixels, so the true scale differs a little from the one asked for, and between the axes.
    to_x, to_y = width / narrow, height / low
    x, y, w, h = found[..., :4].unbind(-1)
    x, y, w, h = x * to_x, y * to_y, w * to_x, h * to_y
    boxes = torch.stack((width - x if mirrored else x, y, w, h), dim=-1)
    return torch.cat((boxes, found[..., 4:]), dim=-1)
