"""Which cells may predict which box in YOLOv7: the anchor-ratio test and the neighbour rule.

Axes: B images, G boxes (padded), A candidate columns, L levels. A column is an anchor of a cell reached from a box.
Columns stand in the published order – level; containing cell, left, up, right, down; anchor; box – which settles ties,
so a column's number says everything else about it and nothing needs to be stored.

`by_anchor` is YOLOv7 without OTA: every candidate is a positive, for the box it was reached from.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from yolofast.assign.cells import Head
from yolofast.assign.dynamic_k import last_of_each_cell
from yolofast.assign.fused_ota import fused_candidates
from yolofast.boxes import to_pixels
from yolofast.precision import kernels_for
from yolofast.structures import Assignment, Targets, level_shapes

_NEIGHBOURS = 5


@dataclass(frozen=True)
class AnchorCandidates:
    """All columns of a batch, `[B, A]` with A = L · 5 · anchors · G."""

    cell: Tensor
    """Position in the level's map, (anchor · H + y) · W + x."""
    valid: Tensor
    per_level: int
    anchors: int
    boxes: int

    @property
    def columns(self) -> int:
        return self.valid.shape[1]

    def level(self, level: int) -> slice:
        return slice(level * self.per_level, (level + 1) * self.per_level)


def find_candidates(targets: Targets, head: Head, shapes: Sequence[tuple[int, int]]) -> AnchorCandidates:
    """A neighbour is the containing cell itself if the centre is on a boundary or at the border.

    A faithful head counts it twice, as the published rule does; otherwise it is left out.
    """
    anchors_LA2 = head.anchors_in_cells()
    anchors, boxes = anchors_LA2.shape[1], targets.boxes.shape[1]
    per_level = _NEIGHBOURS * anchors * boxes
    if kernels_for(targets.boxes):
        found = fused_candidates(targets, head, shapes)[0].long()
        return AnchorCandidates(found.clamp(min=0), found >= 0, per_level, anchors, boxes)
    cells, valids = [], []
    for anchors_A2, (height, width) in zip(anchors_LA2, shapes, strict=True):
        centre_BG2, size_BG2 = to_pixels(targets.boxes, width, height).chunk(2, dim=-1)  # in cells
        ratio_BAG2 = size_BG2[:, None] / anchors_A2[None, :, None]
        fits_BAG = torch.maximum(ratio_BAG2, 1 / ratio_BAG2).amax(-1) < head.anchor_t
        x_BNG, y_BNG, near_BNG = _neighbours(centre_BG2, width, height, head.reach)
        if not head.faithful:
            same = (x_BNG == x_BNG[:, :1]) & (y_BNG == y_BNG[:, :1])
            same[:, 0] = False
            near_BNG = near_BNG & ~same
        anchor = torch.arange(len(anchors_A2), device=centre_BG2.device)[:, None]
        cell_BNAG = (anchor * height + y_BNG[:, :, None]) * width + x_BNG[:, :, None]
        valid_BNAG = (near_BNG & targets.valid[:, None])[:, :, None] & fits_BAG[:, None]
        cells.append(cell_BNAG.flatten(1))
        valids.append(valid_BNAG.flatten(1))
    return AnchorCandidates(torch.cat(cells, 1), torch.cat(valids, 1), per_level, anchors, boxes)


def _neighbours(centre_BG2: Tensor, width: int, height: int, reach: float) -> tuple[Tensor, Tensor, Tensor]:
    """x, y and whether it counts, `[B, 5, G]`: the containing cell, left, up, right, down."""
    x, y = centre_BG2.unbind(-1)
    rest_x, rest_y = width - x, height - y
    near = (
        torch.ones_like(x, dtype=torch.bool),
        (x % 1 < reach) & (x > 1),
        (y % 1 < reach) & (y > 1),
        (rest_x % 1 < reach) & (rest_x > 1),
        (rest_y % 1 < reach) & (rest_y > 1),
    )
    column = torch.stack((x, x - reach, x, x + reach, x), dim=1).long().clamp(0, width - 1)
    row = torch.stack((y, y, y - reach, y, y + reach), dim=1).long().clamp(0, height - 1)
    return column, row, torch.stack(near, dim=1)


def by_anchor(raw: Sequence[Tensor], targets: Targets, head: Head) -> list[Assignment]:
    shapes, result = level_shapes(raw), []
    candidates = find_candidates(targets, head, shapes)
    for level, (height, width) in enumerate(shapes):
        at, count = candidates.level(level), candidates.anchors * height * width
        positive = candidates.valid[:, at]
        column = torch.arange(candidates.per_level, device=positive.device).expand_as(positive)
        cell = torch.where(positive, candidates.cell[:, at], column % count)
        last = last_of_each_cell(cell, column, positive, count)
        result.append(Assignment(cell, column % candidates.boxes, positive, last))
    return result
