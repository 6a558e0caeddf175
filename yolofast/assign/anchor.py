"""YOLOv7 without OTA: every candidate is a positive, for the box it was reached from."""

from collections.abc import Sequence

import torch
from torch import Tensor

from yolofast.assign.candidates import Candidates, find_candidates
from yolofast.assign.head import Head
from yolofast.assign.select import last_of_each_cell
from yolofast.structures import Assignment, Targets, level_shapes


def by_anchor(raw: Sequence[Tensor], targets: Targets, head: Head) -> list[Assignment]:
    shapes, unique = level_shapes(raw), not head.faithful
    candidates = find_candidates(targets, head.anchors_in_cells(), shapes, head.anchor_t, head.reach, unique)
    return assign_anchor(candidates, [candidates.anchors * height * width for height, width in shapes])


def assign_anchor(candidates: Candidates, cells: list[int]) -> list[Assignment]:
    """`cells` is the number of anchor positions of each level."""
    result = []
    for level, count in enumerate(cells):
        at = candidates.level(level)
        positive = candidates.valid[:, at]
        column = torch.arange(candidates.per_level, device=positive.device).expand_as(positive)
        cell = torch.where(positive, candidates.cell[:, at], column % count)
        last = last_of_each_cell(cell, column, positive, count)
        result.append(Assignment(cell, column % candidates.boxes, positive, last))
    return result
