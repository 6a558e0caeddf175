"""What an assigner may ask of a head, and of how it is to be read: the third argument of all of them."""

from dataclasses import dataclass

from torch import Tensor

from yolofast.raw_rows import RowReader
from yolofast.structures import HeadLayout


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
    """One head; the labels of targets are places among its classes."""

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
