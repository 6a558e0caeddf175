"""TOOD's task-aligned assigner: a box takes the predictions that are best at both tasks, finding it and naming it.

Alignment t = s · u⁶ of the score s for the box's class and the overlap u, over all predictions of cells whose centre is
in the box; the 13 best are its positives. Their quality is t scaled so that the box's best reaches its largest
overlap. Only ln t is computed: u⁶ of a poor overlap is smaller than any float32, and where it becomes 0 depends
on the device. Written from the paper (Feng et al., ICCV 2021); for anchor-based heads every anchor of a cell counts.

Axes: B images, G boxes (padded), A predictions of a level (anchor, y, x), M positives per box, N the best of all
levels, S = G · M slots. Columns number the predictions of all levels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from yolofast.assign.cells import (
    Head,
    level_of_columns,
    some_images_at_a_time,
    split_by_level,
    strictly_within,
    targets_of,
)
from yolofast.assign.dynamic_k import choose_columns
from yolofast.boxes import cxcywh_to_xyxy, iou, pairwise, to_pixels
from yolofast.decoding import decode_boxes
from yolofast.raw_maps import cell_index, own_place
from yolofast.structures import Assignment, Targets

_POSITIVES_PER_BOX = 13
_OVERLAP_POWER = 6
_SMALLEST = 1e-9  # of a score or an overlap: below, predictions are equally bad


@torch.no_grad()
def by_tal(raw: Sequence[Tensor], targets: Targets, head: Head) -> list[Assignment]:
    """It has no notion of neighbours: auxiliary maps learn what lead maps learn. `quality` is scaled alignment."""
    batch, boxes = targets.labels.shape
    positions = [raw_map[0, ..., 0].numel() for raw_map in raw]

    def match(at: slice) -> tuple[Tensor, ...]:
        some = targets_of(targets, at)
        best = [best_of_level(raw_map[at], some, head, level) for level, raw_map in enumerate(raw)]
        return _match(best, positions)

    column_BS, box_BS, used_BS, quality_BS = some_images_at_a_time(match, batch, boxes * max(positions))
    level_BS = level_of_columns(positions, column_BS.device)[column_BS]
    cell_A = torch.cat([torch.arange(count, device=column_BS.device) for count in positions])
    return split_by_level(cell_A[column_BS], level_BS, box_BS, used_BS, positions, quality_BS)


class Best(NamedTuple):
    """The best of one level for each box, `[B, G, M]`; `position` is one past the last where there is none."""

    position: Tensor
    aligned: Tensor
    overlap: Tensor


def best_of_level(raw_map: Tensor, targets: Targets, head: Head, level: int) -> Best:
    aligned_BGA, overlap_BGA, inside_BGA = alignment(raw_map, targets, head, level)
    columns = aligned_BGA.shape[-1]
    # "How many good overlaps" is here "how many in the box": as many as there are, up to 13.
    position = choose_columns(torch.where(inside_BGA, -aligned_BGA, torch.inf), inside_BGA.float(), _POSITIVES_PER_BOX)
    place = position.clamp(max=columns - 1)
    aligned = torch.where(position < columns, aligned_BGA.gather(-1, place), -torch.inf)
    return Best(position, aligned, overlap_BGA.gather(-1, place))


def alignment(raw_map: Tensor, targets: Targets, head: Head, level: int) -> tuple[Tensor, Tensor, Tensor]:
    """`[B, G, A]` each, on one level: ln of the alignment, overlap, and whether the box may take the prediction."""
    (height, width), stride = raw_map.shape[2:4], head.layout.strides[level]
    truth_BG4 = to_pixels(targets.boxes, width * stride, height * stride)
    boxes_BA4 = decode_boxes(raw_map, head.anchors_px[level], stride, head.layout)
    overlap_BGA = pairwise(iou, cxcywh_to_xyxy(truth_BG4), cxcywh_to_xyxy(boxes_BA4))
    cell = torch.arange(boxes_BA4.shape[1], device=raw_map.device)
    centre_A2 = (cell_index(cell, (height, width)) + 0.5) * stride
    half_width, half_height = (truth_BG4[..., 2:, None] / 2).unbind(-2)
    inside_BGA = strictly_within(centre_A2[None], truth_BG4[..., :2], half_width, half_height)
    score_BGA = _score(head.reader.scores(raw_map), targets.labels).clamp(min=_SMALLEST)
    aligned_BGA = score_BGA.log() + _OVERLAP_POWER * overlap_BGA.clamp(min=_SMALLEST).log()
    return aligned_BGA, overlap_BGA, inside_BGA & targets.valid[..., None]


def _score(logits: Tensor, labels_BG: Tensor) -> Tensor:
    """σ(objectness) · σ(the box's class), `[B, G, positions]`. Other classes are not looked at."""
    index = labels_BG[:, None, None, None].expand(*logits.shape[:4], -1)
    own_class = logits[..., 1:].gather(-1, index).float().sigmoid()
    score = own_class * logits[..., :1].float().sigmoid()
    return score.flatten(1, 3).transpose(1, 2)


def _match(best: Sequence[Best], positions: Sequence[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Slots `[B, S]`: the prediction, the box that gets it, whether the slot is used, and the scaled alignment.

    The best of all levels are among the best of each; levels come in order, so ties are still settled by column.
    """
    starts = [sum(positions[:level]) for level in range(len(positions))]
    column_BGN = torch.cat([start + level.position for start, level in zip(starts, best, strict=True)], dim=-1)
    aligned_BGN = torch.cat([level.aligned for level in best], dim=-1)
    overlap_BGN = torch.cat([level.overlap for level in best], dim=-1)
    there_BGN = aligned_BGN > -torch.inf
    picked_BGM = choose_columns(-aligned_BGN, there_BGN.float(), _POSITIVES_PER_BOX)
    place_BGM = picked_BGM.clamp(max=aligned_BGN.shape[-1] - 1)
    chosen_BGM = torch.where(picked_BGM < aligned_BGN.shape[-1], column_BGN.gather(-1, place_BGM), sum(positions))
    overlap_BGM, aligned_BGM = overlap_BGN.gather(-1, place_BGM), aligned_BGN.gather(-1, place_BGM)
    used_BGM = _largest_overlap_of_each(chosen_BGM, overlap_BGM, sum(positions))
    aligned_BGM = torch.where(used_BGM, aligned_BGM, -torch.inf)
    best_aligned = aligned_BGM.amax(-1, keepdim=True)
    best_overlap = torch.where(used_BGM, overlap_BGM, 0.0).amax(-1, keepdim=True)
    quality_BGM = torch.where(used_BGM, (aligned_BGM - best_aligned).exp() * best_overlap, 0.0)
    boxes = torch.arange(chosen_BGM.shape[1], device=chosen_BGM.device)[:, None].expand_as(chosen_BGM)
    column_BGM = chosen_BGM.clamp(max=sum(positions) - 1)
    return column_BGM.flatten(1), boxes.flatten(1), used_BGM.flatten(1), quality_BGM.flatten(1)


def _largest_overlap_of_each(chosen_BGM: Tensor, overlap_BGM: Tensor, columns: int) -> Tensor:
    """Which choices stay: of the boxes that chose one prediction the one that overlaps most, or the first such."""
    chosen, overlap = chosen_BGM.flatten(1), overlap_BGM.flatten(1)
    # Compared by rank, not by value: a compiler may compute a value twice and round it differently.
    order = overlap.argsort(dim=1, descending=True, stable=True)
    rank = torch.arange(chosen.shape[1], device=chosen.device).expand_as(order)
    rank = torch.empty_like(order).scatter_(1, order, rank)
    place = own_place(chosen, chosen < columns, columns)
    best = rank.new_full((len(rank), columns + rank.shape[1]), rank.shape[1]).scatter_reduce_(1, place, rank, "amin")
    return ((chosen < columns) & (best.gather(1, place) == rank)).view_as(chosen_BGM)
