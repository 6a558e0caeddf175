"""1B4H: leaving other heads' objects out of a head's objectness, instead of teaching it that they are background."""

import torch
from torch import Tensor

from yolofast.boxes import to_pixels
from yolofast.ranks import mean_of_cells, per_rank
from yolofast.raw_maps import own_place
from yolofast.structures import Assignment


def mean_without_foreign(
    loss_BAHW: Tensor, slots: Assignment, boxes_BG4: Tensor, foreign_BG: Tensor, weight: float, spare_positives: bool
) -> Tensor:
    """The mean objectness loss of one level when the cells holding a foreign object's centre count less or not at all.

    All anchors of such a cell are concerned, whatever the object's size. `weight` 0 leaves them out: the mean is over
    the others. Above 0 their loss is scaled by it, and the mean is over all. `spare_positives` keeps a cell's anchor
    that learns one of the head's own boxes; the published code ignores it too.
    """
    ignored = _centre_cells(boxes_BG4, foreign_BG, loss_BAHW)
    if spare_positives:
        ignored = ignored & ~_marked(slots.cell, slots.positive, loss_BAHW[0].numel()).view_as(loss_BAHW)
    if weight > 0:
        return mean_of_cells(torch.where(ignored, weight * loss_BAHW, loss_BAHW))
    return torch.where(ignored, 0.0, loss_BAHW).sum() / per_rank((~ignored).sum())


def _centre_cells(boxes_BG4: Tensor, which_BG: Tensor, like_BAHW: Tensor) -> Tensor:
    height, width = like_BAHW.shape[2:]
    centre = to_pixels(boxes_BG4, width, height)[..., :2].long()
    cell = centre[..., 1].clamp(0, height - 1) * width + centre[..., 0].clamp(0, width - 1)
    return _marked(cell, which_BG, height * width).view(-1, 1, height, width).expand_as(like_BAHW)


def _marked(cell_BS: Tensor, which_BS: Tensor, cells: int) -> Tensor:
    """`[B, cells]`: whether one of the slots that count is there."""
    place = own_place(cell_BS, which_BS, cells)
    return which_BS.new_zeros(len(cell_BS), cells + place.shape[1]).scatter_(1, place, True)[:, :cells]
