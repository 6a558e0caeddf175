"""Reading raw maps: what the channels of a row mean, and positions (anchor · H + y) · W + x on a level's map.

Shared by decoding, which reads all rows, and by assigners and losses, which read a few. The channels are those of the
kinds `anchor` and `bin` (`HeadLayout.kind`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Bins of the `bin` kind span sizes of 0 to 4 anchors, the same range as (2σ)².
BIN_RANGE = 4.0


@dataclass(frozen=True)
class RowReader:
    """Reads rows `[..., channels]`."""

    bins: int = 0
    """Bins per side of the `bin` kind; 0 for the `anchor` kind."""
    score_channels: Tensor | None = None
    """Where objectness and the classes that count are, if not simply everything behind the box (1B4H, `full_head`)."""

    @property
    def objectness(self) -> int:
        """The objectness channel."""
        return 2 + 2 * (self.bins + 1) if self.bins else 4

    def centres(self, rows: Tensor) -> Tensor:
        """x and y in cells, from the corner of the row's own cell."""
        return rows[..., :2].sigmoid() * 2 - 0.5

    def sizes(self, rows: Tensor) -> Tensor:
        """Width and height in anchors."""
        return decode_bins(self.sides(rows)) if self.bins else (rows[..., 2:4].sigmoid() * 2) ** 2

    def sides(self, rows: Tensor) -> Tensor:
        """Width and height of the `bin` kind, `[..., 2, 1 + bins]`: an offset and the bins' logits."""
        return rows[..., 2 : self.objectness].view(*rows.shape[:-1], 2, self.bins + 1)

    def scores(self, rows: Tensor) -> Tensor:
        """Logits of objectness and of the classes, `[..., 1 + classes]`."""
        if self.score_channels is None:
            return rows[..., self.objectness :]
        return rows.index_select(-1, self.score_channels)


def decode_bins(sides: Tensor) -> Tensor:
    """Sizes in anchors from `[..., 1 + bins]`: the centre of the likeliest bin, moved by at most one bin's width."""
    step = BIN_RANGE / (sides.shape[-1] - 1)
    offset = (sides[..., 0].sigmoid() * 2 - 1) * step
    centre = (sides[..., 1:].argmax(dim=-1) + 0.5) * step
    return (offset + centre).clamp(0.0, BIN_RANGE)


def rows_at(raw: Tensor, cell_BS: Tensor) -> Tensor:
    """Rows `[B, S, channels]` of a map `[B, A, H, W, channels]` at positions (anchor · H + y) · W + x."""
    cells_first = is_cells_first(raw)
    flat = (raw.permute(0, 2, 3, 1, 4) if cells_first else raw).reshape(-1, raw.shape[-1])
    index = flat_index(cell_BS, raw.shape, cells_first)
    return flat.index_select(0, index.flatten()).view(*cell_BS.shape, -1)


def is_cells_first(raw: Tensor) -> bool:
    """Whether memory runs image, y, x, anchor, channel: the layout channels_last convolutions give."""
    return raw.permute(0, 2, 3, 1, 4).is_contiguous() and not raw.is_contiguous()


def flat_index(cell_BS: Tensor, shape: Sequence[int], cells_first: bool) -> Tensor:
    """Where cells are in the map laid out as `[positions, channels]` in its own memory order."""
    batch, anchors, height, width, _ = shape
    image = torch.arange(batch, device=cell_BS.device)[:, None]
    area = height * width
    if cells_first:
        return (image * area + cell_BS % area) * anchors + cell_BS // area
    return image * (anchors * area) + cell_BS


def cell_index(cell: Tensor, shape: tuple[int, int]) -> Tensor:
    """Column and row `[..., 2]` of positions on maps of shape (rows, columns)."""
    height, width = shape
    return torch.stack((cell % width, cell // width % height), dim=-1)


def own_place(cell_BS: Tensor, used: Tensor, cells: int) -> Tensor:
    """Where a slot writes: its cell, or, unused, a place of its own behind the cells, where it queues with nobody."""
    return torch.where(used, cell_BS, cells + torch.arange(cell_BS.shape[1], device=cell_BS.device))
