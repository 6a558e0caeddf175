"""Cells as places in the image, and chosen columns back to cells; shared by the assigners.

Axes: B images, G boxes, A columns (cells of all levels, level by level), S slots.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from yolofast.structures import Assignment


def strictly_within(point_BA2: Tensor, centre_BG2: Tensor, half_width: Tensor, half_height: Tensor) -> Tensor:
    """`[B, G, A]`: is the point less than half a side from the centre on both axes? Halves broadcast to `[B, G, A]`.

    Compared with the sides, as published, rather than by distance: rounding then decides alike for points on a side.
    """
    x, y = (axis[:, None] for axis in point_BA2.unbind(-1))
    centre_x, centre_y = (axis[..., None] for axis in centre_BG2.unbind(-1))
    in_x = (x > centre_x - half_width) & (x < centre_x + half_width)
    in_y = (y > centre_y - half_height) & (y < centre_y + half_height)
    return in_x & in_y


def split_by_level(
    cell_BS: Tensor,
    level_BS: Tensor,
    box_BS: Tensor,
    used_BS: Tensor,
    positions: Sequence[int],
    quality_BS: Tensor | None = None,
) -> list[Assignment]:
    """Slots over all levels to one `Assignment` per level of that many `positions`.

    Every positive slot sets its cell's objectness; where a cell may be used twice, the caller decides which does.
    """
    spread = torch.arange(cell_BS.shape[1], device=cell_BS.device)
    result = []
    for level, count in enumerate(positions):
        positive = used_BS & (level_BS == level)
        # Unused slots are spread over the map: all on one cell, their (zero) gradients would queue up there.
        here = torch.where(positive, cell_BS, spread % count)
        result.append(Assignment(here, box_BS, positive, sets_objectness=positive, quality=quality_BS))
    return result


def level_of_columns(columns: Sequence[int], device: torch.device) -> Tensor:
    """`[A]`: the level each column is of, given how many each level has."""
    return torch.cat([torch.full((count,), level, device=device) for level, count in enumerate(columns)])
