"""Positions on a level's maps, (anchor · H + y) · W + x, shared by assigners and losses."""

import torch
from torch import Tensor


def cell_index(cell: Tensor, shape: tuple[int, int]) -> Tensor:
    """Column and row `[..., 2]` of positions on maps of shape (rows, columns)."""
    height, width = shape
    return torch.stack((cell % width, cell // width % height), dim=-1)


def own_place(cell_BS: Tensor, used: Tensor, cells: int) -> Tensor:
    """Where a slot writes: its cell, or, unused, a place of its own behind the cells, where it queues with nobody."""
    return torch.where(used, cell_BS, cells + torch.arange(cell_BS.shape[1], device=cell_BS.device))
