"""YOLOX's loss: 5 · (1 − IoU²), objectness, class and, late in training, L1 on the raw outputs, per foreground cell.

Axes: B images, S slots per image (see `Assignment`), C classes. Each slot is computed and the unused ones are masked,
so shapes never depend on the data.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from yolofast.boxes import cxcywh_to_xyxy, iou, to_pixels
from yolofast.decoding import decode_points
from yolofast.loss.maps import bce, objectness_and_rows
from yolofast.ranks import per_rank
from yolofast.raw_maps import cell_index, own_place
from yolofast.structures import Assignment, LossTerms, Targets

_IOU_GAIN = 5.0


def yolox_loss(
    raw: Sequence[Tensor],
    assignment: Sequence[Assignment],
    targets: Targets,
    strides: Sequence[int],
    *,
    use_l1: bool,
) -> LossTerms:
    """`raw[level]` is `[B, 1, H, W, 5 + nc]`. The class target is the assigner's `quality`, else the overlap."""
    sums = [
        _level_sums(raw_map, slots, targets, stride, use_l1)
        for raw_map, slots, stride in zip(raw, assignment, strides, strict=True)
    ]
    foreground = per_rank(torch.stack([slots.positive.sum() for slots in assignment]).sum())
    box, obj, cls, l1 = torch.stack(sums).sum(0).div(foreground).unbind()
    box = _IOU_GAIN * box
    return LossTerms(
        box + obj + cls + l1,
        {"box": box.detach(), "obj": obj.detach(), "cls": cls.detach(), "l1": l1.detach()},
        foreground=foreground / per_rank(targets.valid.sum()),
    )


def _level_sums(raw_map: Tensor, slots: Assignment, targets: Targets, stride: int, use_l1: bool) -> Tensor:
    """`[4]`: 1 − IoU², objectness, class and L1, summed over one level."""
    height, width = raw_map.shape[2:4]
    logits, rows_BSC = objectness_and_rows(raw_map, slots.cell)
    index_BS2 = cell_index(slots.cell, (height, width))
    truth_BS4 = targets.boxes.gather(1, slots.target[..., None].expand(-1, -1, 4))
    truth_BS4 = to_pixels(truth_BS4, width * stride, height * stride)
    boxes_BS4 = decode_points(rows_BSC[..., :4], index_BS2, stride)
    grade_BS = slots.quality
    if grade_BS is None:
        grade_BS = iou(cxcywh_to_xyxy(boxes_BS4.detach()), cxcywh_to_xyxy(truth_BS4))
    label_BS = targets.labels.gather(1, slots.target)

    parts = (
        torch.where(slots.positive, 1 - _overlap(boxes_BS4, truth_BS4) ** 2, 0.0),
        bce(logits, _objectness_target(slots, logits)),
        torch.where(slots.positive, _class_loss(rows_BSC[..., 5:], label_BS, grade_BS), 0.0),
    )
    l1 = rows_BSC.new_zeros(())
    if use_l1:
        distance_BS = (rows_BSC[..., :4] - _encode(truth_BS4, index_BS2, stride)).abs().sum(-1)
        l1 = torch.where(slots.positive, distance_BS, 0.0).sum()
    return torch.stack([*(part.sum() for part in parts), l1])


def _overlap(boxes: Tensor, truth: Tensor) -> Tensor:
    """IoU of cx, cy, w, h boxes with areas from w · h, as published: corners lose digits far from the origin."""
    low = torch.maximum(boxes[..., :2] - boxes[..., 2:] / 2, truth[..., :2] - truth[..., 2:] / 2)
    high = torch.minimum(boxes[..., :2] + boxes[..., 2:] / 2, truth[..., :2] + truth[..., 2:] / 2)
    width, height = (high - low).clamp(min=0).unbind(-1)
    intersection = width * height
    union = boxes[..., 2] * boxes[..., 3] + truth[..., 2] * truth[..., 3] - intersection
    return intersection / (union + 1e-16)


def _objectness_target(slots: Assignment, logits: Tensor) -> Tensor:
    """`[B, 1, H, W]`: the quality of foreground cells, 1 where the assigner does not grade them; 0 elsewhere."""
    cells = logits[0].numel()
    value = torch.ones_like(slots.cell, dtype=torch.float32) if slots.quality is None else slots.quality
    place = own_place(slots.cell, slots.positive, cells)
    target = value.new_zeros(len(logits), cells + place.shape[1]).scatter_(1, place, value)
    return target[:, :cells].view_as(logits)


def _class_loss(logits_BSC: Tensor, label_BS: Tensor, grade_BS: Tensor) -> Tensor:
    own = torch.arange(logits_BSC.shape[-1], device=logits_BSC.device) == label_BS[..., None]
    return bce(logits_BSC, torch.where(own, grade_BS[..., None], 0.0)).sum(-1)


def _encode(truth: Tensor, index: Tensor, stride: int) -> Tensor:
    """The raw outputs that would decode to the box."""
    return torch.cat((truth[..., :2] / stride - index, torch.log(truth[..., 2:] / stride + 1e-8)), dim=-1)
