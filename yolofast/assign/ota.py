"""YOLOv7's OTA: of all candidates of an image, each box takes as many as it has good overlaps, the cheapest first."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from yolofast.assign.anchor import AnchorCandidates, find_candidates
from yolofast.assign.cells import Head, some_images_at_a_time, split_by_level
from yolofast.assign.dynamic_k import choose_columns, class_and_iou_cost, last_of_each_cell, settle_conflicts
from yolofast.assign.fused_ota import can_be_fused, fused_ota
from yolofast.boxes import cxcywh_to_xyxy, iou, pairwise, to_pixels
from yolofast.precision import kernels_for
from yolofast.raw_maps import RowReader, cell_index, rows_at
from yolofast.structures import Assignment, Targets, level_shapes


@torch.no_grad()
def by_ota(raw: Sequence[Tensor], targets: Targets, head: Head) -> list[Assignment]:
    """`head.faithful` scales boxes by the image's height on both axes, and lets one anchor of one cell be several
    candidates, as published. Otherwise width and height are used, and each is a candidate once.
    """
    if kernels_for(targets.boxes) and can_be_fused(raw, targets, head):
        return fused_ota(raw, targets, head)
    shapes, anchors_LA2, strides = level_shapes(raw), head.anchors_in_cells(), head.layout.strides
    candidates = find_candidates(targets, head, shapes)
    cells = [candidates.cell[:, candidates.level(level)] for level in range(len(raw))]
    rows = [rows_at(raw_map, cell) for raw_map, cell in zip(raw, cells, strict=True)]
    height, width = shapes[0][0] * strides[0], shapes[0][1] * strides[0]
    truth_BG4 = to_pixels(targets.boxes, height if head.faithful else width, height)
    valid = candidates.valid if head.faithful else _once_per_cell(candidates, shapes)
    by_level = zip(rows, cells, anchors_LA2, strides, shapes, strict=True)
    boxes_BA4 = torch.cat([_decode(head.reader, *of_level) for of_level in by_level], dim=1)
    scores_BAC = torch.cat([head.reader.scores(row).float() for row in rows], dim=1)
    batch, boxes = targets.labels.shape

    def match(at: slice) -> tuple[Tensor, ...]:
        truth = truth_BG4[at], targets.labels[at], targets.valid[at]
        return _match(boxes_BA4[at], scores_BAC[at], *truth, valid[at], head.topk)

    column, box, used = some_images_at_a_time(match, batch, boxes * candidates.columns)
    return _by_level(column, box, used, candidates, shapes)


def _match(
    boxes_BA4: Tensor, scores_BAC: Tensor, truth_BG4: Tensor, labels: Tensor, real: Tensor, valid: Tensor, topk: int
) -> tuple[Tensor, Tensor, Tensor]:
    possible_BGA = valid[:, None] & real[..., None]
    iou_BGA = pairwise(iou, cxcywh_to_xyxy(truth_BG4), cxcywh_to_xyxy(boxes_BA4))
    cost_BGA = class_and_iou_cost(scores_BAC[..., 0], scores_BAC[..., 1:], labels, iou_BGA)
    cost_BGA = torch.where(possible_BGA, cost_BGA, torch.inf)
    chosen_BGK = choose_columns(cost_BGA, torch.where(possible_BGA, iou_BGA, 0.0), topk)
    return settle_conflicts(chosen_BGK, cost_BGA)


def _decode(
    reader: RowReader, row: Tensor, cell: Tensor, anchors_A2: Tensor, stride: int, shape: tuple[int, int]
) -> Tensor:
    """Candidate boxes in pixels, cx, cy, w, h."""
    height, width = shape
    row = row.float()
    corner = cell_index(cell, shape)
    anchor = anchors_A2[cell // (width * height)]
    return torch.cat((reader.centres(row) + corner, reader.sizes(row) * anchor), dim=-1) * stride


def _once_per_cell(candidates: AnchorCandidates, shapes: Sequence[tuple[int, int]]) -> Tensor:
    """The candidates with every anchor of every cell once, in its lowest column."""
    once = []
    for level, (height, width) in enumerate(shapes):
        at = candidates.level(level)
        column = torch.arange(candidates.per_level, device=candidates.cell.device).expand_as(candidates.cell[:, at])
        cells = candidates.anchors * height * width
        from_the_end = candidates.per_level - 1 - column  # the lowest column is the last from the end
        once.append(last_of_each_cell(candidates.cell[:, at], from_the_end, candidates.valid[:, at], cells))
    return torch.cat(once, dim=1)


def _by_level(
    column: Tensor, box: Tensor, used: Tensor, candidates: AnchorCandidates, shapes: Sequence[tuple[int, int]]
) -> list[Assignment]:
    """One anchor of one cell may be matched in several columns; the highest speaks for it."""
    positions = [candidates.anchors * height * width for height, width in shapes]
    cell = candidates.cell.gather(1, column)
    levels = split_by_level(cell, column // candidates.per_level, box, used, positions)
    return [
        replace(slots, sets_objectness=last_of_each_cell(slots.cell, column, slots.positive, count))
        for slots, count in zip(levels, positions, strict=True)
    ]
