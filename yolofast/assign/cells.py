"""What the assigners share: `Head`, their third argument; points near boxes; chosen columns back to cells.

Their memory does not grow with the batch: with too many pairs, some images are taken at a time. Images do not influence
one another's assignment, so the result is the same, and the limit depends on shapes only.

Axes: B images, G boxes, A columns (cells of all levels, level by level), S slots.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from yolofast.raw_maps import RowReader
from yolofast.structures import Assignment, HeadLayout, Targets

MAX_PAIRS = 24_000_000
"""Of box and prediction, compared at a time."""


@dataclass(frozen=True)
class SimOtaVersion:
    """What differs between the published versions of SimOTA."""

    radius: float
    """A cell is near a box when its centre is within this many strides of the box's centre on both axes."""
    penalty: float
    """Added to the cost of a cell that is not the box's own."""
    inside_box: bool
    """Cells inside a box are candidates too, and a box's own cells must be both near and inside."""


CURRENT = SimOtaVersion(radius=1.5, penalty=1e6, inside_box=False)
VENDORED = SimOtaVersion(radius=2.5, penalty=1e5, inside_box=True)


@dataclass(frozen=True, kw_only=True)
class Head:
    """One head; the labels of targets are indices among its classes."""

    layout: HeadLayout
    anchors_px: Tensor
    """`[L, A, 2]` in pixels; of a head without anchors the sizes of cells."""
    reader: RowReader
    faithful: bool
    """As the published code assigns, defects included."""
    anchors_LA2: Tensor | None = None
    """In cells of their level; None without anchors."""
    anchor_t: float = 4.0
    """How often an anchor's side may go into a box's, or the other way round."""
    reach: float = 0.5
    """How far neighbours count: 0.5 is the 3-cell rule, 1.0 the 5-cell rule of auxiliary maps."""
    topk: int = 10
    """Of how many good overlaps the positives of a box are counted."""
    version: SimOtaVersion | None = None
    """Of SimOTA; None is the current one. (A default that is an object could not be compiled.)"""

    def anchors_in_cells(self) -> Tensor:
        assert self.anchors_LA2 is not None, "the table says which assigners need anchors"
        return self.anchors_LA2


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


def some_images_at_a_time(
    match: Callable[[slice], tuple[Tensor, ...]], batch: int, pairs_per_image: int
) -> tuple[Tensor, ...]:
    """The tensors `match` returns for a range of images, joined over the batch."""
    images = max(1, MAX_PAIRS // max(1, pairs_per_image))
    parts = [match(slice(start, start + images)) for start in range(0, batch, images)]
    return parts[0] if len(parts) == 1 else tuple(torch.cat(column) for column in zip(*parts, strict=True))


def targets_of(targets: Targets, images: slice) -> Targets:
    return Targets(targets.boxes[images], targets.labels[images], targets.valid[images])
