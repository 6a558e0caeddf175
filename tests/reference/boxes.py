"""Overlap of boxes given as (cx, cy, w, h)."""

import math

import torch
from torch import Tensor


def corners(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """[..., 4] boxes to their top-left and bottom-right corners, [..., 2] each."""
    return boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2


def plain_iou(boxes: Tensor, others: Tensor) -> Tensor:
    """IoU without epsilon, for matching. Two boxes without area (0/0) overlap by 0, so that no NaN enters a sum."""
    top_left, bottom_right = corners(boxes)
    other_top_left, other_bottom_right = corners(others)
    sides = (torch.minimum(bottom_right, other_bottom_right) - torch.maximum(top_left, other_top_left)).clamp(min=0)
    inter = sides.prod(-1)
    area = (bottom_right - top_left).prod(-1)
    other_area = (other_bottom_right - other_top_left).prod(-1)
    return torch.nan_to_num(inter / (area + other_area - inter), nan=0.0)


def complete_iou(boxes: Tensor, targets: Tensor, eps: float = 1e-7) -> Tensor:
    """CIoU = IoU - rho^2/c^2 - alpha*v. eps guards the heights, the union, the diagonal and alpha."""
    top_left, bottom_right = corners(boxes)
    target_top_left, target_bottom_right = corners(targets)
    sides = torch.minimum(bottom_right, target_bottom_right) - torch.maximum(top_left, target_top_left)
    inter = sides.clamp(min=0).prod(-1)
    width, height = boxes[..., 2:].unbind(-1)
    target_width, target_height = targets[..., 2:].unbind(-1)
    height, target_height = height + eps, target_height + eps
    iou = inter / (width * height + target_width * target_height - inter + eps)

    hull = torch.maximum(bottom_right, target_bottom_right) - torch.minimum(top_left, target_top_left)
    diagonal2 = (hull**2).sum(-1) + eps
    centre_distance2 = ((boxes[..., :2] - targets[..., :2]) ** 2).sum(-1)
    v = 4 / math.pi**2 * (torch.atan(target_width / target_height) - torch.atan(width / height)) ** 2
    with torch.no_grad():
        alpha = v / (v - iou + (1 + eps))
    return iou - centre_distance2 / diagonal2 - alpha * v
