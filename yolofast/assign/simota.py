"""YOLOX's SimOTA: of the cells near any box, each box takes as many as it has good overlaps, the cheapest first.

A cell near one box may be taken by another at a penalty, so that a box with no cell of its own still learns.

Axes: B images, G boxes (padded), A columns, K columns of one level, L levels. A column is a cell; columns stand level
by level, row by row, which settles ties.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from yolofast.assign.cells import (
    CURRENT,
    Head,
    SimOtaVersion,
    level_of_columns,
    some_images_at_a_time,
    split_by_level,
    strictly_within,
    targets_of,
)
from yolofast.assign.dynamic_k import choose_columns, class_and_iou_cost, settle_conflicts
from yolofast.boxes import cxcywh_to_xyxy, iou, pairwise, to_pixels
from yolofast.decoding import decode_points
from yolofast.raw_maps import cell_index, rows_at
from yolofast.structures import Assignment, Targets, level_shapes

_TOPK = 10


@dataclass(frozen=True)
class CellColumns:
    """The cells of one level to look at, in ascending order; every candidate is among them."""

    cell: Tensor
    """`[B, K]`"""
    distinct: Tensor
    """`[B, K]` bool: the column counts. Others repeat a cell or fill up the fixed shape."""


def by_simota(raw: Sequence[Tensor], targets: Targets, head: Head) -> list[Assignment]:
    shapes, version = level_shapes(raw), CURRENT if head.version is None else head.version
    columns = find_columns(targets, shapes, version)
    rows = [rows_at(raw_map, level.cell) for raw_map, level in zip(raw, columns, strict=True)]
    return assign_simota(rows, columns, targets, head.layout.strides, shapes, version)


def find_columns(targets: Targets, shapes: Sequence[tuple[int, int]], version: SimOtaVersion) -> list[CellColumns]:
    """Few boxes are near few cells, and only those are then read from the maps; otherwise all cells are columns."""
    batch, boxes = targets.labels.shape
    near = math.ceil(2 * version.radius) ** 2 * boxes * len(shapes)
    if version.inside_box or near >= sum(height * width for height, width in shapes):
        return [_all_cells(batch, height * width, targets.boxes.device) for height, width in shapes]
    return _cells_near_boxes(targets, shapes, version.radius)


@torch.no_grad()
def assign_simota(
    rows: Sequence[Tensor],
    columns: Sequence[CellColumns],
    targets: Targets,
    strides: Sequence[int],
    shapes: Sequence[tuple[int, int]],
    version: SimOtaVersion,
) -> list[Assignment]:
    """`rows[level]` are the raw predictions at that level's columns, `[B, K, 5 + nc]`."""
    batch, boxes = targets.labels.shape
    counts = [level.cell.shape[1] for level in columns]

    def match(at: slice) -> tuple[Tensor, ...]:
        some_rows = [row[at] for row in rows]
        some_columns = [CellColumns(level.cell[at], level.distinct[at]) for level in columns]
        cost_BGA, iou_BGA = simota_costs(some_rows, some_columns, targets_of(targets, at), strides, shapes, version)
        return settle_conflicts(choose_columns(cost_BGA, iou_BGA, _TOPK), cost_BGA)

    column_BS, box_BS, used_BS = some_images_at_a_time(match, batch, boxes * sum(counts))
    cell_BS = torch.cat([level.cell for level in columns], dim=1).gather(1, column_BS)
    level_BS = level_of_columns(counts, column_BS.device)[column_BS]
    return split_by_level(cell_BS, level_BS, box_BS, used_BS, [height * width for height, width in shapes])


def simota_costs(
    rows: Sequence[Tensor],
    columns: Sequence[CellColumns],
    targets: Targets,
    strides: Sequence[int],
    shapes: Sequence[tuple[int, int]],
    version: SimOtaVersion,
) -> tuple[Tensor, Tensor]:
    """Cost and IoU `[B, G, A]`; infinite and 0 where the box is padding or the column no candidate."""
    truth_BG4 = to_pixels(targets.boxes, shapes[0][1] * strides[0], shapes[0][0] * strides[0])
    boxes, centres, reaches = [], [], []
    for row, column, stride, shape in zip(rows, columns, strides, shapes, strict=True):
        index = cell_index(column.cell, shape)
        boxes.append(decode_points(row[..., :4].float(), index, stride))
        centres.append((index + 0.5) * stride)
        reaches.append(torch.full((column.cell.shape[1],), version.radius * stride, device=row.device))
    distinct_BA = torch.cat([column.distinct for column in columns], dim=1)
    scores_BAC = torch.cat([row[..., 4:] for row in rows], dim=1).float()

    possible_BGA, own_BGA = _candidates(torch.cat(centres, 1), truth_BG4, torch.cat(reaches), targets.valid, version)
    possible_BGA = possible_BGA & distinct_BA[:, None]
    iou_BGA = pairwise(iou, cxcywh_to_xyxy(truth_BG4), cxcywh_to_xyxy(torch.cat(boxes, 1)))
    cost_BGA = class_and_iou_cost(scores_BAC[..., 0], scores_BAC[..., 1:], targets.labels, iou_BGA)
    cost_BGA = cost_BGA + torch.where(own_BGA, 0.0, version.penalty)
    return torch.where(possible_BGA, cost_BGA, torch.inf), torch.where(possible_BGA, iou_BGA, 0.0)


def _candidates(
    centre_BA2: Tensor, truth_BG4: Tensor, reach_A: Tensor, real_BG: Tensor, version: SimOtaVersion
) -> tuple[Tensor, Tensor]:
    """Two masks `[B, G, A]`: the box may take the cell, and it may do so without penalty."""
    eligible = own = strictly_within(centre_BA2, truth_BG4[..., :2], reach_A, reach_A)
    if version.inside_box:
        half_width, half_height = (truth_BG4[..., 2:, None] / 2).unbind(-2)
        inside = strictly_within(centre_BA2, truth_BG4[..., :2], half_width, half_height)
        eligible, own = eligible | inside, own & inside
    real_BG1 = real_BG[..., None]
    anyones_BA = (eligible & real_BG1).any(1)
    return anyones_BA[:, None] & real_BG1, own


def _all_cells(batch: int, cells: int, device: torch.device) -> CellColumns:
    cell = torch.arange(cells, device=device).expand(batch, -1)
    return CellColumns(cell, torch.ones_like(cell, dtype=torch.bool))


def _cells_near_boxes(targets: Targets, shapes: Sequence[tuple[int, int]], radius: float) -> list[CellColumns]:
    side = torch.arange(math.ceil(2 * radius), device=targets.boxes.device)
    by_level = []
    for height, width in shapes:
        centre_BG2 = to_pixels(targets.boxes, width, height)[..., :2]  # in cells
        # The first cell whose centre, half a cell further, is past the near side.
        first_x, first_y = ((centre_BG2 - radius - 0.5).floor() + 1).long().unbind(-1)
        x_BG1S = (first_x[..., None] + side)[:, :, None]
        y_BGS1 = (first_y[..., None] + side)[..., None]
        on_map = (x_BG1S >= 0) & (x_BG1S < width) & (y_BGS1 >= 0) & (y_BGS1 < height)
        on_map = on_map & targets.valid[..., None, None]
        by_level.append(torch.where(on_map, y_BGS1 * width + x_BG1S, height * width).flatten(1))
    # One sort for all levels: equal cells come to stand side by side, and columns in order.
    cell_BLK = torch.stack(by_level, dim=1).int().sort(dim=-1).values.long()
    repeated = torch.zeros_like(cell_BLK, dtype=torch.bool)
    repeated[..., 1:] = cell_BLK[..., 1:] == cell_BLK[..., :-1]
    result = []
    for level, (height, width) in enumerate(shapes):
        cell = cell_BLK[:, level]
        distinct = (cell < height * width) & ~repeated[:, level]
        result.append(CellColumns(cell.clamp(max=height * width - 1), distinct))
    return result
