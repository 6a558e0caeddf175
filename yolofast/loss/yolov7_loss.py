"""YOLOv7's loss: box, objectness and class terms on the positives an assigner chose.

Axes: B images, S slots per image (see `Assignment`), C classes. Every slot is computed and unused ones are masked, so
shapes never depend on the data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from yolofast.boxes import ciou_cxcywh, to_pixels
from yolofast.loss.criterion import LossSettings
from yolofast.loss.fused_terms import can_be_fused, fused_terms
from yolofast.loss.maps import bce, objectness_and_rows
from yolofast.precision import kernels_for
from yolofast.ranks import mean_of_cells, per_rank
from yolofast.raw_maps import BIN_RANGE, RowReader, cell_index, own_place
from yolofast.structures import Assignment, Targets

ObjectnessMean = Callable[[Tensor, Assignment], Tensor]

_BALANCE = {3: (4.0, 1.0, 0.4)}
_BALANCE_OTHERWISE = (4.0, 1.0, 0.25, 0.06, 0.02)


@dataclass(frozen=True)
class RawTerms:
    """Terms before gains. `obj_by_level` has one entry per level, before the balance."""

    box: Tensor
    obj_by_level: Tensor
    cls: Tensor


def mean_of_all(loss: Tensor, slots: Assignment) -> Tensor:
    """The ordinary objectness mean: every cell counts."""
    return mean_of_cells(loss)


def level_balance(levels: int) -> tuple[float, ...]:
    """How much each level's objectness counts."""
    return _BALANCE.get(levels, _BALANCE_OTHERWISE)[:levels]


def yolov7_terms(
    raw: Sequence[Tensor],
    assignment: Sequence[Assignment],
    targets: Targets,
    anchors_LA2: Tensor,
    settings: LossSettings,
    reader: RowReader,
    *,
    best_overlap: bool = False,
    objectness_mean: ObjectnessMean = mean_of_all,
) -> RawTerms:
    """`anchors_LA2` in cells.

    Of several slots of one cell the last sets the objectness target, as published; with `best_overlap` the best one.
    `objectness_mean` takes a level's loss and slots to the mean over the cells that count (1B4H leaves some out).
    """
    if kernels_for(raw[0]) and objectness_mean is mean_of_all and can_be_fused(raw, reader, settings):
        how = assignment, targets, anchors_LA2, settings, reader
        return RawTerms(*fused_terms(raw, *how, best_overlap=best_overlap))
    box = cls = raw[0].new_zeros((), dtype=torch.float32)
    objectness = []
    for level, (raw_map, slots) in enumerate(zip(raw, assignment, strict=True)):
        logits, rows_BSC = objectness_and_rows(raw_map, slots.cell, reader.objectness)
        anchor_BS2 = anchors_LA2[level][slots.cell // (raw_map.shape[2] * raw_map.shape[3])]
        truth_BS4 = _truth(slots, targets, (raw_map.shape[2], raw_map.shape[3]))
        box_BS4 = torch.cat((reader.centres(rows_BSC), reader.sizes(rows_BSC) * anchor_BS2), dim=-1)
        overlap_BS = ciou_cxcywh(box_BS4, truth_BS4)
        distance_BS = 1 - overlap_BS
        if reader.bins:
            distance_BS = distance_BS + bin_loss(reader.sides(rows_BSC)[..., 1:], truth_BS4[..., 2:] / anchor_BS2)
        positives = per_rank(slots.positive.sum())
        box = box + torch.where(slots.positive, distance_BS, 0.0).sum() / positives
        classes_BSC = reader.scores(rows_BSC)[..., 1:]
        quality = overlap_BS.detach().clamp(min=0) if slots.quality is None else slots.quality
        if classes_BSC.shape[-1] > 1:
            label = targets.labels.gather(1, slots.target)
            total = _class_sum(classes_BSC, label, slots.positive, quality, settings)
            cls = cls + total / (positives * classes_BSC.shape[-1])
        target = _objectness_target(quality, slots, logits, settings.gr, best_overlap)
        loss = bce(logits, target, settings.obj_pw, settings.fl_gamma)
        objectness.append(objectness_mean(loss, slots))
    return RawTerms(box, torch.stack(objectness), cls)


def bin_loss(logits_BS2N: Tensor, size_BS2: Tensor) -> Tensor:
    """`[B, S]`: BCE of width's and height's N bins against the bin nearest to `size_BS2`, the true size in anchors.

    Sizes beyond the bins' range count as its ends. IBin's size of a side is the centre of its likeliest bin plus an
    offset (`decode_bins`). No gradient flows through the arg-max, so the overlap alone would train the offset only.
    The published description names this term without its weight or reduction. Here it is the mean over positives and
    bins, the two sides added, in the box term next to 1 − CIoU with weight 1.
    """
    bins = logits_BS2N.shape[-1]
    # Bins lie side by side, so the nearest centre is that of the bin the size falls into.
    nearest = (size_BS2.clamp(0, BIN_RANGE) * (bins / BIN_RANGE)).long().clamp(max=bins - 1)
    target = torch.arange(bins, device=nearest.device) == nearest[..., None]
    return bce(logits_BS2N, target.to(logits_BS2N.dtype)).mean(-1).sum(-1)


def _truth(slots: Assignment, targets: Targets, shape: tuple[int, int]) -> Tensor:
    """`[B, S, 4]`: each slot's box in cells, the centre from the corner of the slot's cell."""
    height, width = shape
    corner = cell_index(slots.cell, shape)
    box = to_pixels(targets.boxes.gather(1, slots.target[..., None].expand(-1, -1, 4)), width, height)
    return torch.cat((box[..., :2] - corner, box[..., 2:]), dim=-1)


def _class_sum(
    logits_BSC: Tensor, label_BS: Tensor, positive_BS: Tensor, quality_BS: Tensor, settings: LossSettings
) -> Tensor:
    absent = settings.label_smoothing / 2
    own = torch.arange(logits_BSC.shape[-1], device=logits_BSC.device) == label_BS[..., None]
    if settings.cls_gr:
        present = (1 - absent) * (1 - settings.cls_gr + settings.cls_gr * quality_BS[..., None])
        target = torch.where(own, present, absent)
    else:
        target = torch.where(own, 1 - absent, absent)
    loss = bce(logits_BSC, target, settings.cls_pw, settings.fl_gamma)
    return torch.where(positive_BS[..., None], loss, 0.0).sum()


def _objectness_target(quality_BS: Tensor, slots: Assignment, logits: Tensor, gr: float, best: bool) -> Tensor:
    """`[B, A, H, W]`: the quality of the slot that speaks for the cell, 0 where there is none."""
    cells = logits[0].numel()
    value = (1 - gr) + gr * quality_BS
    speaks = slots.positive if best else slots.sets_objectness
    place = own_place(slots.cell, speaks, cells)
    target = value.new_zeros(len(logits), cells + place.shape[1]).scatter_reduce_(1, place, value, "amax")
    return target[:, :cells].view_as(logits)


def mean_without_foreign(
    loss_BAHW: Tensor, slots: Assignment, boxes_BG4: Tensor, foreign_BG: Tensor, weight: float, spare_positives: bool
) -> Tensor:
    """1B4H: other heads' objects are left out of a head's objectness, instead of teaching it that they are background.

    The mean objectness loss of one level when the cells holding a foreign object's centre count less or not at all.

    All anchors of such a cell are concerned, whatever the object's size. `weight` 0 leaves them out: the mean is over
    the others. Above 0 their loss is scaled by it, and the mean is over all. `spare_positives` keeps a cell's anchor
    that learns one of the head's own boxes; the published code ignores it too.
    """
    ignored = _centre_cells(boxes_BG4, foreign_BG, loss_BAHW)
    if spare_positives:
        ignored = ignored & ~_marked(slots.cell, slots.positive, loss_BAHW[0].numel()).view_as(loss_BAHW)
    if weight > 0:
        return mean_of_cells(torch.where(ignored, weight * loss_BAHW, loss_BAHW))
    return torch.where(ignored, 0.0, loss_BAHW).sum() / per_rank((~ignored).sum())


def _centre_cells(boxes_BG4: Tensor, which_BG: Tensor, like_BAHW: Tensor) -> Tensor:
    height, width = like_BAHW.shape[2:]
    centre = to_pixels(boxes_BG4, width, height)[..., :2].long()
    cell = centre[..., 1].clamp(0, height - 1) * width + centre[..., 0].clamp(0, width - 1)
    return _marked(cell, which_BG, height * width).view(-1, 1, height, width).expand_as(like_BAHW)


def _marked(cell_BS: Tensor, which_BS: Tensor, cells: int) -> Tensor:
    """`[B, cells]`: whether one of the slots that count is there."""
    place = own_place(cell_BS, which_BS, cells)
    return which_BS.new_zeros(len(cell_BS), cells + place.shape[1]).scatter_(1, place, True)[:, :cells]
