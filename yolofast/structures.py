"""The typed values that cross stage boundaries.

Axes used in tensor names across the package: B images in the batch, G ground-truth boxes (padded), A anchor positions,
N predictions, C classes, L levels.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class HeadLayout:
    """How to read a detector's raw maps: static facts only, so that reading them never waits for the device.

    A model returns one raw map per level, `[B, anchors_per_cell, H, W, channels]`. With several heads (1B4H) the maps
    of head 0 come first, then those of head 1, and so on: map `head * levels + level`.
    """

    kind: Literal["anchor", "bin"]
    """`anchor`: x, y, w, h, obj, classes. `bin`: x, y, w and h as one offset and `bins` logits each, obj, classes."""
    nc: int
    strides: tuple[int, ...]
    anchors_per_cell: int
    bins: int = 0
    head_classes: tuple[tuple[int, ...], ...] = ()
    """1B4H: the classes each head owns, in the order of its class channels; empty for a single head."""
    full_head: bool = False
    """1B4H: every head has a channel for every class, those of other heads being ignored."""

    @property
    def levels(self) -> int:
        return len(self.strides)

    @property
    def heads(self) -> int:
        return max(1, len(self.head_classes))


class RawMapReader(Protocol):
    """What decoding and losses need to know of a model, and all they may know."""

    @property
    def layout(self) -> HeadLayout: ...

    @property
    def anchors_px(self) -> Tensor:
        """Anchor sizes in input pixels, `[L, anchors_per_cell, 2]`."""

    @property
    def class_columns(self) -> Tensor | None:
        """1B4H: `[heads, nc]`, the place of each class among a head's class channels; one past the last if foreign."""
