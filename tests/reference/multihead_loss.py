"""The 1B4H loss router: the anchor loss once per head, on that head's classes alone.

Objects of other heads are background for a head's objectness, unless the ignore strategy takes their centre cells out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.reference.candidates import AnchorGrid, find_candidates, neighbour_cells, to_cells
from tests.reference.yolov7_loss import LossResult, LossSettings, Terms, finish, level_shapes, terms


@dataclass(frozen=True)
class Head:
    """Global class ids in the order of the local ids, and the weight of the head's loss."""

    classes: Sequence[int]
    weight: float = 1.0


def multihead_loss(
    head_preds: Sequence[Sequence[Tensor]],
    targets: Tensor,
    heads: Sequence[Head],
    grid: AnchorGrid,
    settings: LossSettings,
    *,
    ignore_other_heads: bool = False,
    ignore_weight: float = 0.0,
) -> LossResult:
    """head_preds: per head, per level [B, A, rows, columns, 5 + nc_h]; targets with global class ids.

    With ignore_other_heads, ignore_weight 0 leaves the cells out (hard); above 0 it scales their loss (soft).
    The positives of the result are those of the heads one after another; their target is a row of all targets.
    """
    total = Terms(torch.zeros(()), torch.zeros(()), torch.zeros(()))
    positives = []
    for preds, head in zip(head_preds, heads, strict=True):
        rows, own = own_targets(targets, head)
        found = find_candidates(own, level_shapes(preds), grid, anchor_t=settings.anchor_t)
        ignored = foreign_centre_cells(preds, targets, head) if ignore_other_heads else None
        total = total + terms(preds, own, found, grid, settings, ignored, ignore_weight) * head.weight
        positives.extend(positive._replace(target=rows[positive.target]) for positive in found)
    return finish(total, len(head_preds[0][0]), settings, positives, [])


def own_targets(targets: Tensor, head: Head) -> tuple[list[int], Tensor]:
    """The rows of the head's classes, and those targets with local class ids."""
    rows = [row for row in range(len(targets)) if int(targets[row, 1]) in head.classes]
    own = targets[rows].clone()
    for target in own:
        target[1] = list(head.classes).index(int(target[1]))
    return rows, own


def foreign_centre_cells(preds: Sequence[Tensor], targets: Tensor, head: Head) -> list[Tensor]:
    """Per level, bool [B, A, rows, columns]: every anchor of the cell holding the centre of another head's object."""
    masks = []
    for pred in preds:
        mask = torch.zeros(pred.shape[:4], dtype=torch.bool)
        shape = (pred.shape[2], pred.shape[3])
        for target in targets:
            if int(target[1]) not in head.classes:
                containing_cell = neighbour_cells(to_cells(target[2:6], shape)[:2], shape, 0.5)[0]
                assert containing_cell is not None
                gj, gi = containing_cell
                mask[int(target[0]), :, gj, gi] = True
        masks.append(mask)
    return masks


def own_channels(preds: Sequence[Tensor], head: Head) -> list[Tensor]:
    """Maps of a `full_head` (5 + all classes) reduced to the head's own classes, in the order of its local ids."""
    channels = [0, 1, 2, 3, 4] + [5 + cls for cls in head.classes]
    return [pred[..., channels] for pred in preds]
