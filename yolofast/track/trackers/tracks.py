"""What a tracker gets and gives: the detections of one frame, tracks, and what was decided about both."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(eq=False, slots=True)
class Tracks:
    """Of one frame. Boxes are x1 y1 x2 y2."""

    ids: Ints
    boxes: Floats
    scores: Floats
    labels: Ints
    confirmed: Bools
    """False for a track that was seen in one frame only, which faithful BoT-SORT gives, too."""
    detections: Ints
    """The row of the detection each one was matched to, -1 for none."""

    def __len__(self) -> int:
        return len(self.ids)


class TrackerFrame(NamedTuple):
    """Checked detections, and when and from where they were seen."""

    boxes: Floats
    """[n, 4], in memory coordinate by coordinate: calls on long rows are faster."""
    scores: Floats
    labels: Ints
    labelled: bool
    """Otherwise all labels are 0."""
    features: Floats | None
    warp: Floats | None
    """2×3, from the previous frame to this one."""
    elapsed: float
    """Since the previous frame, in ticks of the clock (`tracker.py`)."""
    frames: float
    """The same, in frames at the tracker's rate."""
    clock: float
    """When it was seen, in ticks."""
    time: float
    """When it was seen, in seconds."""
    size: tuple[int, int] | None
    """Width and height of the image, if they are known."""

    def boxes_of(self, rows: Ints) -> Floats:
        return self.boxes.T.take(rows, 1).T


@dataclass(frozen=True)
class AssociationStage:
    """One association of a frame, kept if decisions are to be explained. Pairs that are not listed do not overlap."""

    name: str
    ids: Ints
    """Of the tracks before the frame, one per row; 0 for those that have none yet."""
    boxes: Floats
    """Where each was expected, and what overlaps are measured with, but for the last observed ones."""
    labels: Ints
    rows: Bools
    columns: Bools
    """Which tracks and which detections took part."""
    pairs: Ints
    """[pairs, 2]: tracks and detections, those that took part."""
    cost: Floats
    limit: float
    """A pair may be matched up to this cost."""
    matched: Bools
    """Which pairs were."""


class TrackColumns:
    """Arrays that hold a value of each track, on the last axis; features, which are long, on the first."""

    def take(self, rows: Ints) -> None:
        """Keeps these rows, in this order."""
        columns = vars(self)
        for name, column in columns.items():
            columns[name] = column[rows] if column.ndim == 1 else column.take(rows, 0 if name == "features" else -1)

    def join(self, more: Self) -> None:
        columns, others = vars(self), vars(more)
        for name, column in columns.items():
            columns[name] = np.concatenate((column, others[name]), axis=0 if name == "features" else -1)

    def insert(self, place: int, more: Self) -> None:
        """Before the row `place`."""
        columns, others = vars(self), vars(more)
        for name, column in columns.items():
            if name == "features":
                columns[name] = np.concatenate((column[:place], others[name], column[place:]))
            else:
                columns[name] = np.concatenate((column[..., :place], others[name], column[..., place:]), axis=-1)

    def copies(self) -> dict[str, NDArray[Any]]:
        return {name: column.copy() for name, column in vars(self).items()}


def normalised(vectors: Floats) -> Floats:
    """Rows of length 1."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
