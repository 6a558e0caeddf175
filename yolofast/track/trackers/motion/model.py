"""How tracks move. A tracker that associates asks a motion model and does not know which one it has.

A model keeps one row per track, in the tracker's order, in arrays of its own. Once per frame the tracker predicts,
moves with the camera, asks for boxes, corrects rows that were matched, adds new ones and puts all in order:

    predict → warp → boxes → follow → born → boxes

Another model is a class in a file of its own and a line in `MOTIONS` (`moving.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from yolofast.track.trackers.tracks import Bools, Floats, Ints, TrackerFrame


class Gaps(NamedTuple):
    """Tracks that are seen again, and are believed to have moved along a straight line since they were last seen."""

    places: Ints
    """Which of those that are corrected, the longest gaps first."""
    frames: Ints
    waited: Floats
    """How long ago they were last seen: frames, and ticks of the clock."""


class Motion(ABC):
    """Boxes are x1 y1 x2 y2."""

    name: ClassVar[str]
    """A saved state is continued by a model of the same name."""
    published: ClassVar[Mapping[str, Any]] = {}
    """Settings of trackers that were published with it, where they are not the trackers' own."""

    def __init__(self, settings: Any) -> None:
        """`settings` are the tracker's, for models that have some of their own."""
        self.clear()

    @abstractmethod
    def clear(self) -> None:
        """No tracks."""

    @abstractmethod
    def born(self, boxes: Floats, place: int) -> None:
        """Tracks that begin with these detections, as rows from `place` on."""

    @abstractmethod
    def take(self, rows: Ints) -> None:
        """Keeps these rows, in this order."""

    @abstractmethod
    def predict(self, frame: TrackerFrame, tracked: int, waiting: Bools | None) -> None:
        """To the time of `frame`. The first `tracked` were seen in the last frame; `waiting` ones stay where they
        are."""

    def warp(self, matrix: Floats) -> None:
        """Moves with the camera, by 2×3."""
        raise NotImplementedError(f"{self.name} is of trackers that do not look at the camera's motion")

    @abstractmethod
    def correct(self, rows: Ints, boxes: Floats, gaps: Gaps | None = None) -> None:
        """These tracks were matched to these detections, some after gaps that the tracker believes to know about."""

    def follow(self, rows: Ints, boxes: Floats, others: Ints) -> None:
        """Corrects `rows`, and keeps them and behind them the others, in this order."""
        self.take(np.concatenate((rows, others)))
        self.correct(np.arange(len(rows)), boxes)

    @abstractmethod
    def boxes(self) -> Floats:
        """Of all tracks, [n, 4]: as predicted, or as corrected if that came later."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Copies of its arrays."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any], count: int) -> None:
        """Of so many tracks. Raises `KeyError`, `TypeError` or `ValueError` before anything has changed."""
