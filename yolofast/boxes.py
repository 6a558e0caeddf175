"""Box formats and overlaps.

Boxes are float tensors `[..., 4]`: `xyxy` (two corners) or `cxcywh` (centre and size), in pixels or normalised to
[0, 1] by the image's width and height. Overlaps are finite, with finite gradients, for degenerate boxes (zero or
negative size, identical, far apart): two empty boxes overlap by 0. They compare element-wise with broadcasting;
`pairwise(iou, a_BN4, b_BM4)` gives `[..., N, M]`.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

# The published eps of the losses, for boxes in cells or pixels; boxes normalised to [0, 1] would be moved by it.
EPS = 1e-7
_SMALLEST_AREA = 1e-30


def cxcywh_to_xyxy(boxes: Tensor) -> Tensor:
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat((centre - half, centre + half), dim=-1)


def to_pixels(boxes: Tensor, width: float, height: float) -> Tensor:
    """Normalised boxes of either format in pixels of an image of that size."""
    # By component rather than times a small tensor: that would have to be copied to the device first.
    x, y, x2, y2 = boxes.unbind(-1)
    return torch.stack((x * width, y * height, x2 * width, y2 * height), dim=-1)


def to_normalised(boxes: Tensor, width: float, height: float) -> Tensor:
    """Pixel boxes of either format as shares of the image's size."""
    x, y, x2, y2 = boxes.unbind(-1)
    return torch.stack((x / width, y / height, x2 / width, y2 / height), dim=-1)


def area(boxes: Tensor) -> Tensor:
    """Of an inside-out box 0."""
    return (boxes[..., 2] - boxes[..., 0]).clamp(min=0) * (boxes[..., 3] - boxes[..., 1]).clamp(min=0)


def pairwise(overlap: Callable[[Tensor, Tensor], Tensor], first: Tensor, second: Tensor) -> Tensor:
    """`overlap` of every box of `first [..., N, 4]` with every box of `second [..., M, 4]`: `[..., N, M]`."""
    return overlap(first[..., :, None, :], second[..., None, :, :])


def iou(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union, exact: without the eps of the loss below."""
    first, second = _at_least_float32(first), _at_least_float32(second)
    intersection = _intersection(first, second)
    union = area(first) + area(second) - intersection
    return intersection / union.clamp(min=_SMALLEST_AREA)


def ciou_cxcywh(first: Tensor, second: Tensor) -> Tensor:
    """Complete IoU of boxes given as centre and size: IoU less two terms.

    One is the squared distance of the centres over the squared diagonal of the enclosing box. The other is for the
    difference in aspect ratio; its weight carries no gradient. Sizes are used as they are instead of being taken from
    the corners again. For a box shrunk to a point, the slope of the aspect ratio would drown that of the position.
    """
    first, second = _at_least_float32(first), _at_least_float32(second)
    first_w, first_h, second_w, second_h = (
        boxes[..., side].clamp(min=0) for boxes in (first, second) for side in (2, 3)
    )
    first, second = cxcywh_to_xyxy(first), cxcywh_to_xyxy(second)
    intersection = _intersection(first, second)
    union = first_w * (first_h + EPS) + second_w * (second_h + EPS) - intersection + EPS
    # Far from the origin corners are rounded and sizes are not, so equal boxes could overlap by more than 1.
    overlap = (intersection / union).clamp(max=1)
    angles = torch.atan(second_w / (second_h + EPS)) - torch.atan(first_w / (first_h + EPS))
    aspect = (4 / math.pi**2) * angles**2
    with torch.no_grad():
        weight = aspect / (aspect - overlap + (1 + EPS))
    return overlap - _centre_distance(first, second) - weight * aspect


def _at_least_float32(boxes: Tensor) -> Tensor:
    """Half-precision corners of a 640-pixel image are only good to half a pixel: too coarse to compare boxes by."""
    return boxes.float() if boxes.dtype in (torch.float16, torch.bfloat16) or not boxes.is_floating_point() else boxes


def _intersection(first: Tensor, second: Tensor) -> Tensor:
    width = torch.minimum(first[..., 2], second[..., 2]) - torch.maximum(first[..., 0], second[..., 0])
    height = torch.minimum(first[..., 3], second[..., 3]) - torch.maximum(first[..., 1], second[..., 1])
    return width.clamp(min=0) * height.clamp(min=0)


def _centre_distance(first: Tensor, second: Tensor) -> Tensor:
    width = torch.maximum(first[..., 2], second[..., 2]) - torch.minimum(first[..., 0], second[..., 0])
    height = torch.maximum(first[..., 3], second[..., 3]) - torch.minimum(first[..., 1], second[..., 1])
    dx = first[..., 0] + first[..., 2] - second[..., 0] - second[..., 2]
    dy = first[..., 1] + first[..., 3] - second[..., 1] - second[..., 3]
    return (dx**2 + dy**2) / 4 / (width**2 + height**2 + EPS)
