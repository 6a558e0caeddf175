"""What all trackers share: checked input, time in seconds, classes, identities, and a state that can be saved."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from yolofast.errors import UserError
from yolofast.track.trackers.camera_motion import CameraMotion
from yolofast.track.trackers.checks import (
    check_image,
    checked_boxes,
    checked_features,
    checked_labels,
    checked_scores,
    checked_size,
    checked_time,
    checked_warp,
)
from yolofast.track.trackers.matching import MatchedPairs
from yolofast.track.trackers.state import (
    array_of,
    columns_of,
    flat,
    number_of,
    opened,
    part_of,
    settings_text,
    unusable,
)
from yolofast.track.trackers.tracks import AssociationStage, Bools, Floats, Ints, TrackerFrame, Tracks

CLASSES = ("vote", "each", "agnostic")
TICKS = 30.0
"""Of the clock in a second. Settings and noises that were published per frame are of videos at this rate, so that is
what they mean, whatever the rate of the frames. Faithful trackers count frames."""
ROUNDING = 1e-6
"""Of clocks."""
_DECIMALS = 6
"""Of a number of ticks: times of frames that are even may be rounded."""
_STILL = np.eye(2, 3)
_GAP = 2.0
"""So many frames after the last one, or more, frames are missing between them."""


class Defect:
    """What the published code does and a repaired tracker does not (docs/tracking.md). Plain text, because an `Enum`
    takes longer to look up than a call of NumPy to compute."""

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


EVERY_DEFECT = tuple(text for name, text in vars(Defect).items() if name.isupper())


class Tracker(ABC):
    """Call `update` once per frame, also for one without detections.

    `faithful` computes what the authors' code computes, defects included, with one frame as the unit of time. Otherwise
    defects are repaired, and `time` (seconds; by default one frame at `frame_rate` after the last) tells how far tracks
    have moved, how sure that is, and when lost ones are given up.
    """

    name: ClassVar[str]

    def __init__(self, settings: Any, *, frame_rate: float, faithful: bool, classes: str) -> None:
        self.settings, self.frame_rate, self.classes = settings, frame_rate, classes
        self.defects: frozenset[str] = frozenset(EVERY_DEFECT) if faithful else frozenset()
        self._in_frames = (1.0 if faithful else TICKS / frame_rate, 1.0)
        """Ticks of the clock, and frames, from one frame to the next."""
        self.stages: list[AssociationStage] | None = None
        """Set it to a list to have every association of a frame recorded."""
        self._camera = CameraMotion(
            getattr(settings, "cmc_method", "none"), faithful=Defect.CORNERS_ON_OBJECTS in self.defects
        )
        self.reset()

    @property
    def faithful(self) -> bool:
        return bool(self.defects)

    @property
    def cmc_method(self) -> str:
        """How the camera's motion is found; "none" by trackers that do not look at it."""
        return self._camera.method

    @property
    def kind(self) -> str:
        """Whose saved state it can continue."""
        return self.name

    def reset(self) -> None:
        """As new: identities count from 1 again."""
        self.frame, self.time, self.clock, self.next_id = 0, 0.0, 0.0, 1
        self.state = self._empty()
        self._camera.reset()

    def update(
        self, boxes: ArrayLike, scores: ArrayLike, labels: ArrayLike | None = None, *, image: Any = None,
        warp: ArrayLike | None = None, features: ArrayLike | None = None, time: float | None = None,
        size: tuple[int, int] | None = None,
    ) -> Tracks:  # fmt: skip
        """Detections x1 y1 x2 y2 of the next frame, [n, 4], become tracks.

        `image` is for the camera's motion, unless a `warp` from the last frame to this one is given. `size` (width,
        height; by default the image's) is for motion models that were trained on shares of it.
        """
        found, has_area = checked_boxes(boxes)
        count = len(found)
        sure = checked_scores(scores, count)
        kinds = np.zeros(count, np.int64) if labels is None else checked_labels(labels, count)
        looks = None if features is None else self._looks(features, count)
        now = self._now(time)
        moved: Floats | None = None if warp is None else checked_warp(warp)
        if image is not None:
            check_image(image)
        size = checked_size(size) if size is not None else None if image is None else image.shape[1::-1]
        if moved is None and image is not None:
            moved = self._camera.warp(image, found)
        if moved is not None and (moved == _STILL).all():
            moved = None  # files of warps have a line for every frame: the same as none, to the bit
        if has_area is not None and not self.faithful:
            # A box at the border of the image may be cut to a line: it has no shape to be followed by.
            sure = np.where(has_area, sure, 0.0)
        elapsed, frames = self._in_frames if time is None else self._elapsed(now)
        self.frame, self.time, self.clock = self.frame + 1, now, self.clock + elapsed
        if self.stages is not None:
            self.stages.clear()
        return self._step(
            TrackerFrame(found, sure, kinds, labels is not None, looks, moved, elapsed, frames, self.clock, now, size)
        )

    @abstractmethod
    def lost(self) -> Tracks:
        """Where tracks are believed to be that live and were given out, but not in this frame."""

    def state_dict(self) -> dict[str, Any]:
        """Arrays, numbers and text by name: a stream that restarts with them continues its identities.

        `np.savez(file, **state)` keeps them; `np.load(file)` can be loaded as it is.
        """
        return {
            "tracker": self.kind,
            "settings": self._settings_text(),
            "frame": self.frame,
            "time": self.time,
            "clock": self.clock,
            "next_id": self.next_id,
            **flat("columns", self.state.copies()),
            **flat("camera", self._camera.state_dict()),
            **flat("motion", self._motion_state()),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Of a tracker of the same name and settings; if it is refused, nothing has changed."""
        given = opened(state, self.kind, self._settings_text())
        try:
            frame, next_id = int(number_of(given, "frame")), int(number_of(given, "next_id"))
            now, clock = float(array_of(given, "time", (), np.float64)), number_of(given, "clock")
            columns = columns_of(self._empty(), part_of(given, "columns"))
            view = self._camera.view_of(part_of(given, "camera"))
            self._load_motion(part_of(given, "motion"), len(columns.ids))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise unusable(error) from None
        self.frame, self.next_id, self.time, self.clock, self.state = frame, next_id, now, clock, columns
        self._camera.remember(view)

    def _settings_text(self) -> str:
        return settings_text(self.settings, frame_rate=self.frame_rate, faithful=self.faithful, classes=self.classes)

    def _motion_state(self) -> dict[str, Any]:
        """Of a model of motion that keeps its own."""
        return {}

    def _load_motion(self, given: Mapping[str, Any], count: int) -> None:  # noqa: B027 (few have one)
        """Of so many tracks. If it raises, nothing has changed."""

    @abstractmethod
    def _step(self, frame: TrackerFrame) -> Tracks: ...

    @abstractmethod
    def _expected(self) -> Floats:
        """[n, 4] boxes of all tracks, before this frame's detections have corrected them."""

    @abstractmethod
    def _empty(self) -> Any:
        """`Columns` of no tracks."""

    def _feature_width(self) -> int | None:
        features = getattr(self.state, "features", None)
        return features.shape[1] if features is not None and len(features) and features.shape[1] else None

    def _are_old(self, frame: TrackerFrame, oldest: Any) -> Bools | None:
        """Which tracks were not seen for more than `oldest` ticks; None: there are none.

        One of the last frame is not too old because frames are rare: only if some are missing since.
        """
        old: Bools = self.state.last_clock < frame.clock - (oldest + ROUNDING)
        if not np.count_nonzero(old):
            return None
        if frame.frames < _GAP - ROUNDING:
            old &= self.state.last < self.frame - 1
        return old if np.count_nonzero(old) else None

    @property
    def looks(self) -> bool:
        """Whether appearance counts."""
        return bool(getattr(self.settings, "with_reid", False))

    def _looks(self, features: ArrayLike, count: int) -> Floats | None:
        if not self.looks:
            fix = "build it" if hasattr(self.settings, "with_reid") else "use botsort, boosttrack or boosttrack++"
            raise UserError(
                f"features are given, but {self.name} does not use them",
                fix=f"{fix} with with_reid=True, or omit features",
            )
        return checked_features(features, count, self._feature_width()) if count or np.size(features) else None

    def _elapsed(self, now: float) -> tuple[float, float]:
        """Since the last frame."""
        if not self.frame or Defect.FRAMES_AS_TIME in self.defects:
            return self._in_frames
        seconds = now - self.time
        return round(seconds * TICKS, _DECIMALS), round(seconds * self.frame_rate, _DECIMALS)

    def _now(self, time: float | None) -> float:
        if time is None:
            return self.time + 1 / self.frame_rate if self.frame else 0.0
        time = checked_time(time)
        if self.frame and time <= self.time:
            what = f"a frame at {time:g} s follows one at {self.time:g} s"
            raise UserError(what, fix="give frames in order, or reset the tracker before another video")
        return time

    def _new_ids(self, count: int) -> Ints:
        ids = np.arange(self.next_id, self.next_id + count, dtype=np.int64)
        self.next_id += count
        return ids

    def _record(
        self, name: str, rows: Bools, columns: Bools, pairs: MatchedPairs, cost: Floats, limit: float, found: Ints
    ) -> None:
        if self.stages is None:
            return
        chosen = np.zeros(len(cost), bool)
        chosen[found] = True
        took_part = rows[pairs.rows] & columns[pairs.columns]
        both = np.stack((pairs.rows, pairs.columns), axis=1)[took_part]
        state, taken = self.state, chosen[took_part]
        stage = AssociationStage(
            name, state.ids.copy(), self._expected().copy(), state.labels.copy(), rows, columns.copy(), both,
            cost[took_part], limit, taken,
        )  # fmt: skip
        self.stages.append(stage)

    def _vote(self, rows: Ints, seen: Ints, frame: TrackerFrame) -> None:
        """The labels of tracks, after `rows` were matched to these detections."""
        if not frame.labelled:
            return
        state, labels = self.state, frame.labels[seen]
        if self.classes != "vote":
            state.labels[rows] = labels
            return
        self._widen_votes(labels)
        is_new = state.votes[labels, rows] == 0
        state.votes[labels, rows] += frame.scores[seen]
        state.labels[rows] = state.votes.take(rows, 1).argmax(0)
        if Defect.FIRST_CLASS_WINS in self.defects:
            state.labels[rows[is_new]] = labels[is_new]

    def _first_votes(self, born: Ints, frame: TrackerFrame) -> Floats:
        """Makes room for them, too."""
        if self.classes != "vote":
            return np.zeros((0, len(born)))
        labels = frame.labels[born]
        self._widen_votes(labels)
        votes = np.zeros((len(self.state.votes), len(born)))
        votes[labels, np.arange(len(born))] = frame.scores[born]
        return votes

    def _widen_votes(self, labels: Ints) -> None:
        """[classes seen so far, n]"""
        more = int(labels.max()) + 1 - len(self.state.votes) if len(labels) else 0
        if more > 0:
            self.state.votes = np.pad(self.state.votes, ((0, more), (0, 0)))
