"""Which cells may predict which box: anchor-ratio test and neighbour rule, as plain loops.

The list of candidates is ordered level by level; within a level by offset (containing cell, left, up, right, down),
then anchor, then target row. This is the published column order, on which every tie rule rests. Duplicates are kept:
the same cell and anchor reached from two targets, or twice from one target, is two candidates.
All arithmetic is float32, so that a centre on a boundary falls on the same side as in a tensor implementation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Candidate(NamedTuple):
    """One anchor of one cell, together with the target row it belongs to."""

    level: int
    image: int
    anchor: int
    gj: int  # row of the cell
    gi: int  # column of the cell
    target: int  # row of the targets tensor


@dataclass(frozen=True, kw_only=True)
class AnchorGrid:
    """Anchors in pixels, [level][anchor] = (width, height), and the stride of each level."""

    anchors_px: Sequence[Sequence[tuple[float, float]]]
    strides: Sequence[int]

    def in_cells(self, level: int) -> Tensor:
        """[A, 2] anchors of a level in units of its cells."""
        return torch.tensor(self.anchors_px[level], dtype=torch.float32) / self.strides[level]


def find_candidates(
    targets: Tensor, shapes: Sequence[tuple[int, int]], grid: AnchorGrid, *, anchor_t: float, g: float = 0.5
) -> list[Candidate]:
    """targets [T, 6] = image, class, cx, cy, w, h (normalised); shapes = (rows, columns) of each level.

    g is both the reach of the neighbour rule and the length of its offsets: 0.5 gives the 3-cell rule, 1.0 the 5-cell
    rule of the aux head.
    """
    candidates = []
    for level, shape in enumerate(shapes):
        boxes = [to_cells(row[2:6], shape) for row in targets]
        cells = [neighbour_cells(box[:2], shape, g) for box in boxes]
        for offset in range(5):
            for anchor, anchor_wh in enumerate(grid.in_cells(level)):
                for target, box in enumerate(boxes):
                    cell = cells[target][offset]
                    if cell is not None and passes_ratio_test(box[2:], anchor_wh, anchor_t):
                        image = int(targets[target, 0])
                        candidates.append(Candidate(level, image, anchor, cell[0], cell[1], target))
    return candidates


def to_cells(box: Tensor, shape: tuple[int, int]) -> Tensor:
    """Scale a normalised (cx, cy, w, h) to the cells of a level of shape (rows, columns)."""
    rows, columns = shape
    return box * torch.tensor([columns, rows, columns, rows], dtype=torch.float32)


def passes_ratio_test(target_wh: Tensor, anchor_wh: Tensor, anchor_t: float) -> bool:
    """Neither side may be anchor_t times longer or shorter than the anchor's. A side of zero never passes."""
    ratio = target_wh / anchor_wh
    return bool(torch.maximum(ratio, 1 / ratio).max() < anchor_t)


def neighbour_cells(xy: Tensor, shape: tuple[int, int], g: float) -> list[tuple[int, int] | None]:
    """(gj, gi) of the containing cell, left, up, right and down; None where the rule does not grant that neighbour.

    With g = 0.5 a coordinate that is a whole number satisfies both the left and the right test, and the "right" cell
    is then trunc(x + 0.5), the containing cell again.
    """
    rows, columns = shape
    x, y = xy[0], xy[1]
    rest_x, rest_y = columns - x, rows - y
    rule = [
        (True, (0.0, 0.0)),
        (bool(x % 1 < g) and bool(x > 1), (g, 0.0)),
        (bool(y % 1 < g) and bool(y > 1), (0.0, g)),
        (bool(rest_x % 1 < g) and bool(rest_x > 1), (-g, 0.0)),
        (bool(rest_y % 1 < g) and bool(rest_y > 1), (0.0, -g)),
    ]
    cells: list[tuple[int, int] | None] = []
    for granted, (offset_x, offset_y) in rule:
        gi = min(max(int(x - offset_x), 0), columns - 1)
        gj = min(max(int(y - offset_y), 0), rows - 1)
        cells.append((gj, gi) if granted else None)
    return cells
