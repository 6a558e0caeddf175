"""TOOD's task-aligned assignment of one image, from the paper's formulas.

Ties are settled as elsewhere: the lower column, the first box.
"""

import math

import torch
from torch import Tensor

from tests.reference.boxes import corners, plain_iou

POSITIVES = 13


def alignment(boxes: Tensor, scores: Tensor, centres: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[G, N] each: ln(s * u^6), u, and whether the prediction's cell centre is strictly inside the box.

    boxes [N, 4] = cx, cy, w, h; scores [N, nc] = sigma(obj) * sigma(cls); centres [N, 2] of the cells;
    labels [G, 5] = class, cx, cy, w, h; all in pixels.
    """
    shape = (0, len(boxes))
    aligned, overlaps, inside = [torch.zeros(shape)], [torch.zeros(shape)], [torch.zeros(shape, dtype=torch.bool)]
    for label in labels:
        overlap = plain_iou(label[1:], boxes)
        top_left, bottom_right = corners(label[1:])
        score = scores[:, int(label[0])].double().clamp(min=1e-9)
        aligned.append(torch.log(score * overlap.double().clamp(min=1e-9) ** 6).float()[None])
        overlaps.append(overlap[None])
        inside.append(((centres > top_left) & (centres < bottom_right)).all(-1)[None])
    return torch.cat(aligned), torch.cat(overlaps), torch.cat(inside)


def match(aligned_GN: Tensor, overlap_GN: Tensor, inside_GN: Tensor) -> dict[int, tuple[int, float]]:
    """Prediction -> its box and the alignment scaled so that the box's best positive has the box's largest overlap."""
    boxes, columns = aligned_GN.shape
    chosen_by: dict[int, list[int]] = {}
    for box in range(boxes):
        eligible = [column for column in range(columns) if inside_GN[box, column]]
        eligible.sort(key=lambda column: (-aligned_GN[box, column].item(), column))
        for column in eligible[:POSITIVES]:
            chosen_by.setdefault(column, []).append(box)
    owner = {
        column: max(choosers, key=lambda box: (overlap_GN[box, column].item(), -box))
        for column, choosers in chosen_by.items()
    }
    result = {}
    for column, box in owner.items():
        mine = [other for other, its_box in owner.items() if its_box == box]
        best_aligned = max(aligned_GN[box, other].item() for other in mine)
        best_overlap = max(overlap_GN[box, other].item() for other in mine)
        result[column] = (box, math.exp(aligned_GN[box, column].item() - best_aligned) * best_overlap)
    return result
