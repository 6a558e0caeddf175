"""YOLOv7's loss: box, objectness and class terms on the positives an assigner chose.

Axes: B images, S slots per image (see `Assignment`), C classes. Each slot is computed and the unused ones are masked, so
shapes never depend on the data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from yolofast.boxes import ciou, cxcywh_to_xyxy, to_pixels
from yolofast.loss.bce import bce
from yolofast.loss.maps import objectness_and_rows
from yolofast.loss.settings import LossSettings
from yolofast.structures import Assignment, Targets

_BALANCE = {3: (4.0, 1.0, 0.4)}
_BALANCE_OTHERWISE = (4.0, 1.0, 0.25, 0.06, 0.02)


@dataclass(frozen=True)
class RawTerms:
    """Terms before gains. `obj_by_level` has one entry per level, before the balance."""

    box: Tensor
    obj_by_level: Tensor
    cls: Tensor


def level_balance(levels: int) -> tuple[float, ...]:
    """How much each level's objectness counts."""
    return _BALANCE.get(levels, _BALANCE_OTHERWISE)[:levels]


def yolov7_terms(
    raw: Sequence[Tensor],
    assignment: Sequence[Assignment],
    targets: Targets,
    anchors_LA2: Tensor,
    settings: LossSettings,
    *,
    best_overlap: bool = False,
    class_channels: Tensor | None = None,
    objectness_mean: Callable[[Tensor, int], Tensor] = lambda loss, level: loss.mean(),
) -> RawTerms:
    """`anchors_LA2` in cells.

    Of several slots of one cell the last sets the objectness target, as published; with `best_overlap` the best one.
    For 1B4H: `class_channels` are the class channels that count, all if None; `objectness_mean(loss, level)` is the mean
    over the cells that count.
    """
    box = cls = raw[0].new_zeros((), dtype=torch.float32)
    objectness = []
    for level, (raw_map, slots) in enumerate(zip(raw, assignment, strict=True)):
        logits, rows_BSC = objectness_and_rows(raw_map, slots.cell)
        overlap_BS = _overlap(rows_BSC, slots, targets, anchors_LA2[level], (raw_map.shape[2], raw_map.shape[3]))
        positives = slots.positive.sum().clamp(min=1)
        box = box + torch.where(slots.positive, 1 - overlap_BS, 0.0).sum() / positives
        classes_BSC = rows_BSC[..., 5:] if class_channels is None else rows_BSC[..., 5:][..., class_channels]
        if classes_BSC.shape[-1] > 1:
            label = targets.labels.gather(1, slots.target)
            total = _class_sum(classes_BSC, label, slots.positive, settings)
            cls = cls + total / (positives * classes_BSC.shape[-1])
        quality = overlap_BS.detach().clamp(min=0) if slots.quality is None else slots.quality
        wanted = _objectness_target(quality, slots, logits, settings.gr, best_overlap)
        loss = bce(logits, wanted, settings.obj_pw, settings.fl_gamma)
        objectness.append(objectness_mean(loss, level))
    return RawTerms(box, torch.stack(objectness), cls)


def _overlap(rows: Tensor, slots: Assignment, targets: Targets, anchors_A2: Tensor, shape: tuple[int, int]) -> Tensor:
    """CIoU of each slot's prediction with its box, in cells, centres relative to the cell's corner."""
    height, width = shape
    sides = rows[..., :4].sigmoid() * 2
    anchor = anchors_A2[slots.cell // (height * width)]
    predicted = torch.cat((sides[..., :2] - 0.5, sides[..., 2:] ** 2 * anchor), dim=-1)
    corner = torch.stack((slots.cell % width, slots.cell // width % height), dim=-1)
    box = to_pixels(targets.boxes.gather(1, slots.target[..., None].expand(-1, -1, 4)), width, height)
    truth = torch.cat((box[..., :2] - corner, box[..., 2:]), dim=-1)
    return ciou(cxcywh_to_xyxy(predicted), cxcywh_to_xyxy(truth))


def _class_sum(logits_BSC: Tensor, label_BS: Tensor, positive_BS: Tensor, settings: LossSettings) -> Tensor:
    absent = settings.label_smoothing / 2
    own = torch.arange(logits_BSC.shape[-1], device=logits_BSC.device) == label_BS[..., None]
    target = torch.where(own, 1 - absent, absent)
    loss = bce(logits_BSC, target, settings.cls_pw, settings.fl_gamma)
    return torch.where(positive_BS[..., None], loss, 0.0).sum()


def _objectness_target(quality_BS: Tensor, slots: Assignment, logits: Tensor, gr: float, best: bool) -> Tensor:
    """`[B, A, H, W]`: the quality of the slot that speaks for the cell, 0 where there is none."""
    cells = logits[0].numel()
    value = (1 - gr) + gr * quality_BS
    speaks = slots.positive if best else slots.sets_objectness
    place = torch.where(speaks, slots.cell, cells)  # the others write beyond the end
    target = value.new_zeros(len(logits), cells + 1).scatter_reduce_(1, place, value, "amax")
    return target[:, :cells].view_as(logits)
