"""What all trackers share: checked input, time in seconds, classes, identities, and a state that can be saved."""

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from yolofast.errors import UserError, shorten
from yolofast.track.trackers.camera_motion import CameraMotion
from yolofast.track.trackers.matching import Pairs
from yolofast.track.trackers.tracks import (
    Bools,
    Floats,
    Frame,
    Ints,
    Stage,
    Tracks,
    checked_boxes,
    checked_column,
    checked_features,
    checked_warp,
)

CLASSES = ("vote", "each", "agnostic")


class Defect(StrEnum):
    """What the published code does and a repaired tracker does not (docs/tracking.md)."""

    STRICT_THRESHOLD = "a score equal to the threshold is neither high nor low"
    WAITING_NEWCOMERS = "unconfirmed tracks are not predicted"
    LATE_REMOVAL = "lost tracks are removed a frame late, and then for good"
    ONE_FRAME_TRACKS = "tracks of a single frame are given out"
    PIXEL_BORDERS = "overlaps count both ends of a box as pixels"
    IDS_AT_BIRTH = "tracks that are never confirmed use up numbers"
    FIRST_CLASS_WINS = "a class that is seen for the first time wins at once"
    FRAMES_AS_TIME = "time is counted in frames"
    ASSIGN_THEN_DROP = "boxes that do not touch take part in the assignment, too"
    HEIGHT_BY_WIDTH = "differences of height are divided by the width"
    CORNERS_ON_OBJECTS = "the camera's motion is taken from what moves by itself, too"


class Tracker(ABC):
    """Call `update` once per frame, also for one without detections.

    `faithful` computes what the authors' code computes, defects included, with one frame as the unit of time. Otherwise
    defects are repaired, and `time` (seconds; by default one frame at `frame_rate` after the last) tells how far tracks
    have moved and when lost ones are given up.
    """

    name: ClassVar[str]

    def __init__(self, settings: Any, *, frame_rate: float, faithful: bool, classes: str) -> None:
        self.settings, self.frame_rate, self.classes = settings, frame_rate, classes
        self.defects = frozenset(Defect) if faithful else frozenset()
        self.stages: list[Stage] | None = None
        """Set it to a list to have every association of a frame recorded."""
        self._camera = CameraMotion(
            getattr(settings, "cmc_method", "none"), faithful=Defect.CORNERS_ON_OBJECTS in self.defects
        )
        self.reset()

    @property
    def faithful(self) -> bool:
        return bool(self.defects)

    def reset(self) -> None:
        """As new: identities count from 1 again."""
        self.frame, self.time, self.next_id = 0, 0.0, 1
        self.state = self._empty()
        self._camera.reset()

    def update(
        self, boxes: ArrayLike, scores: ArrayLike, labels: ArrayLike | None = None, *, image: Any = None,
        warp: ArrayLike | None = None, features: ArrayLike | None = None, time: float | None = None,
    ) -> Tracks:  # fmt: skip
        """Detections x1 y1 x2 y2 of the next frame, [n, 4], become tracks.

        `image` is for the camera's motion, unless a `warp` from the last frame to this one is given.
        """
        found = checked_boxes(boxes)
        count = len(found)
        checked_scores = checked_column(scores, count, "scores", np.float64)
        kinds = np.zeros(count, np.int64) if labels is None else checked_column(labels, count, "labels", np.int64)
        looks = None if features is None else checked_features(features, count, self._feature_width())
        now = self._now(time)
        if warp is not None:
            moved: Floats | None = checked_warp(warp)
        else:
            moved = self._camera.warp(image, found) if image is not None else None
        in_frames = Defect.FRAMES_AS_TIME in self.defects or not self.frame
        elapsed = 1.0 if in_frames else (now - self.time) * self.frame_rate
        self.frame, self.time = self.frame + 1, now
        if self.stages is not None:
            self.stages.clear()
        return self._step(Frame(found, checked_scores, kinds, looks, moved, elapsed, now))

    @abstractmethod
    def lost(self) -> Tracks:
        """Where tracks are believed to be that this frame's detections do not show."""

    def state_dict(self) -> dict[str, Any]:
        """Arrays and numbers: a stream that restarts with them continues its identities."""
        return {
            "tracker": self.name,
            "frame": self.frame,
            "time": self.time,
            "next_id": self.next_id,
            "columns": {field.name: getattr(self.state, field.name).copy() for field in dataclasses.fields(self.state)},
            "camera": self._camera.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state.get("tracker") != self.name:
            what = f"the state is of {shorten(state.get('tracker'))}, this is {self.name}"
            raise UserError(what, fix="build the tracker it was saved from")
        self.frame, self.time, self.next_id = int(state["frame"]), float(state["time"]), int(state["next_id"])
        self.state = type(self.state)(**{name: np.array(column) for name, column in state["columns"].items()})
        self._camera.load_state_dict(copy.deepcopy(state["camera"]))

    @abstractmethod
    def _step(self, frame: Frame) -> Tracks: ...

    @abstractmethod
    def _empty(self) -> Any: ...

    def _feature_width(self) -> int | None:
        features = getattr(self.state, "features", None)
        return features.shape[1] if features is not None and len(features) and features.shape[1] else None

    def _now(self, time: float | None) -> float:
        if time is None:
            return self.time + 1 / self.frame_rate if self.frame else 0.0
        if not np.isfinite(time):
            raise UserError(f"time is {time}", fix="give seconds")
        if self.frame and time <= self.time:
            what = f"a frame at {time:g} s follows one at {self.time:g} s"
            raise UserError(what, fix="give frames in order, or reset the tracker before another video")
        return float(time)

    def _new_ids(self, count: int) -> Ints:
        ids = np.arange(self.next_id, self.next_id + count, dtype=np.int64)
        self.next_id += count
        return ids

    def _record(
        self, name: str, rows: Bools, columns: Bools, pairs: Pairs, cost: Floats, limit: float, found: Ints
    ) -> None:
        if self.stages is None:
            return
        chosen = np.zeros(len(cost), bool)
        chosen[found] = True
        took_part = rows[pairs.rows] & columns[pairs.columns]
        both = np.stack((pairs.rows, pairs.columns), axis=1)[took_part]
        stage = Stage(
            name, self.state.ids.copy(), rows, columns.copy(), both, cost[took_part], limit, chosen[took_part]
        )
        self.stages.append(stage)

    def _vote(self, rows: Ints, seen: Ints, scores: Floats) -> None:
        """The labels of tracks, after `rows` were matched to detections that show `seen`."""
        state = self.state
        self._widen_votes(seen)
        if state.votes.shape[1] == 1:
            state.labels[rows] = seen
            return
        is_new = state.votes[rows, seen] == 0
        state.votes[rows, seen] += scores
        state.labels[rows] = state.votes[rows].argmax(1)
        if Defect.FIRST_CLASS_WINS in self.defects:
            state.labels[rows[is_new]] = seen[is_new]

    def _first_votes(self, born: Ints, frame: Frame) -> Floats:
        votes = np.zeros((len(born), self.state.votes.shape[1]))
        if self.classes == "vote":
            votes[np.arange(len(born)), frame.labels[born]] = frame.scores[born]
        return votes

    def _widen_votes(self, labels: Ints) -> None:
        """[n, classes seen so far]; a single column where there is nothing to vote on."""
        if self.classes == "vote" and len(labels):
            more = int(labels.max()) + 1 - self.state.votes.shape[1]
            if more > 0:
                self.state.votes = np.pad(self.state.votes, ((0, 0), (0, more)))
