"""YOLOv7 without OTA: every candidate is a positive, for the box it was reached from."""

import torch

from yolofast.assign.candidates import Candidates
from yolofast.assign.select import last_of_each_cell
from yolofast.structures import Assignment


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
