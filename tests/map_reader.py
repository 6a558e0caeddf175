"""A model's facts without a model: all that losses may know of one, so that raw maps can be made by hand."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.reference.candidates import AnchorGrid, Candidate
from yolofast.structures import Assignment, HeadLayout, Targets


@dataclass
class MapReader:
    layout: HeadLayout
    anchors_px: Tensor
    class_columns: Tensor | None = None


def map_reader(grid: AnchorGrid, nc: int, **facts) -> MapReader:
    anchors_px = torch.tensor(grid.anchors_px, dtype=torch.float32)
    facts = {"kind": "anchor", **facts}
    layout = HeadLayout(nc=nc, strides=tuple(grid.strides), anchors_per_cell=anchors_px.shape[1], **facts)
    return MapReader(layout, anchors_px)


def rows_in_places(rows: Tensor, batch: int) -> list[list[int]]:
    """Per image, the target row in each of its places: what `Targets.from_rows` does, as a loop."""
    places: list[list[int]] = [[] for _ in range(batch)]
    for row, image in enumerate(rows[:, 0].tolist()):
        places[int(image)].append(row)
    return places


def positives(assignment: Sequence[Assignment], raw: Sequence[Tensor], rows: Tensor) -> list[Candidate]:
    """The positive slots of all levels in the terms of the loop reference, sorted."""
    places = rows_in_places(rows, len(raw[0]))
    found = []
    for level, (slots, raw_map) in enumerate(zip(assignment, raw, strict=True)):
        height, width = raw_map.shape[2:4]
        for image, slot in slots.positive.nonzero().tolist():
            cell = int(slots.cell[image, slot])
            row = places[image][int(slots.target[image, slot])]
            anchor, gj, gi = cell // (height * width), cell // width % height, cell % width
            found.append(Candidate(level, image, anchor, gj, gi, row))
    return sorted(found)


def targets_of(rows: list[list[float]], batch: int = 1) -> Targets:
    return Targets.from_rows(torch.tensor(rows, dtype=torch.float32).view(-1, 6), batch)


def gradients(loss: Tensor, raw: Sequence[Tensor]) -> list[Tensor]:
    """Zeros where a map plays no part."""
    found = torch.autograd.grad(loss, raw, allow_unused=True)
    return [torch.zeros_like(m) if g is None else g for g, m in zip(found, raw, strict=True)]
