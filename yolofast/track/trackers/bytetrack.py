"""ByteTrack and BoT-SORT: confident detections first, then the others for tracks that are about to be lost.

Both take the same steps per frame (docs/tracking.md). They differ in the filter (`motion/box_filters.py`), in camera
motion and appearance (`botsort.py`), and in what they give out. A frame is one function over arrays: predict all, find
pairs that overlap, associate three times, correct all that were matched. Any motion model can do the predicting.

Rows of the state are the tracked ones in the published order, then the lost ones, those that were lost first in front.
So what happens to all of one kind happens to a slice.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from yolofast.track.trackers.matching import MatchedPairs, assign, coinciding, overlapping
from yolofast.track.trackers.motion.box_filters import KalmanAspect
from yolofast.track.trackers.motion.model import Motion
from yolofast.track.trackers.moving import MovingTracker
from yolofast.track.trackers.settings import BotSortSettings, ByteTrackSettings
from yolofast.track.trackers.tracker import TICKS, Defect
from yolofast.track.trackers.tracks import Bools, Floats, Ints, TrackColumns, TrackerFrame, Tracks

_SECOND_LIMIT, _UNCONFIRMED_LIMIT = 0.5, 0.7
DUPLICATE = 0.85
"""A tracked and a lost one that overlap more are one."""


@dataclass
class ByteState(TrackColumns):
    ids: Ints
    """0 until a track is confirmed, unless faithful."""
    confirmed: Bools
    """Lost ones are."""
    given_up: Bools
    """Faithful: removed before this frame, and yet still to be matched once."""
    first: Ints
    last: Ints
    """Frames of the first and the last match; a track is lost if the last is not the last frame."""
    last_clock: Floats
    scores: Floats
    labels: Ints
    votes: Floats
    features: Floats
    """[n, d]; d is 0 without appearance, a row is 0 where a track has none yet."""


class ByteTrack(MovingTracker):
    name = "bytetrack"
    own_motion: ClassVar[type[Motion]] = KalmanAspect
    gives_unconfirmed: ClassVar[bool] = False
    settings: ByteTrackSettings | BotSortSettings
    state: ByteState

    @property
    def _border(self) -> float:
        return 1.0 if Defect.PIXEL_BORDERS in self.defects else 0.0

    def _empty(self) -> ByteState:
        none, flags, whole = np.zeros(0), np.zeros(0, bool), np.zeros(0, np.int64)
        return ByteState(
            whole, flags, flags, whole, whole, none, none, whole, np.zeros((0, 0)), np.zeros((0, 0)),
        )  # fmt: skip

    def _step(self, frame: TrackerFrame) -> Tracks:
        settings, scores = self.settings, frame.scores
        tracked = self._move(frame)
        high = scores >= settings.track_high_thresh
        if Defect.STRICT_THRESHOLD in self.defects:
            high = scores > settings.track_high_thresh
        waiting = bool(np.count_nonzero(self.state.confirmed) < len(self.state.confirmed))
        matches, rows, free = self._associate(frame, high, tracked, waiting)
        born = free.nonzero()[0]
        if len(born):
            least = settings.track_high_thresh + 0.1 if settings.new_track_thresh is None else settings.new_track_thresh
            born = (free & (scores >= least)).nonzero()[0]
        seen, stayed = self._continue(matches, rows, tracked, waiting, high, frame)
        if len(born):
            self._begin(born, stayed, frame)
            seen = np.concatenate((seen[:stayed], born, seen[stayed:]))
        boxes = self.motion.boxes()
        kept = self._without_duplicates(boxes, len(seen))
        if kept is not None:
            self._keep(kept)
            boxes, seen = boxes[kept], seen[kept[: np.searchsorted(kept, len(seen))]]
        return self._given(boxes, seen, len(born) > 0)

    def _move(self, frame: TrackerFrame) -> int:
        """What is too old goes, the others are predicted. Faithful: unconfirmed ones stay where they are.

        How many are tracked; the others are lost.
        """
        state, waiting = self.state, None
        tracked = int(np.count_nonzero(state.last == self.frame - 1))
        if Defect.LATE_REMOVAL not in self.defects:
            old = self._are_old(frame, self._buffer())
            if old is not None:
                kept = (~old).nonzero()[0]
                self._keep(kept)
                tracked = int(kept.searchsorted(tracked))
        if Defect.WAITING_NEWCOMERS in self.defects:
            waiting = ~state.confirmed
        self.motion.predict(frame, tracked, waiting)
        if frame.warp is not None:
            self.motion.warp(frame.warp)
        return tracked

    def _buffer(self) -> Any:
        """How long lost ones are kept, by the clock."""
        buffer = self.settings.track_buffer
        return buffer * (self.frame_rate / TICKS) if Defect.FRAMES_AS_TIME in self.defects else buffer

    def _associate(self, frame: TrackerFrame, high: Bools, tracked: int, waiting: bool) -> tuple[Ints, Ints, Bools]:
        """The detection of each track, -1 for none; which tracks have one; and which high ones are left. `waiting`:
        some are not confirmed."""
        settings, scores, known, told = self.settings, frame.scores, self.state.confirmed, self.stages is not None
        pairs = self._pairs(frame)
        cost = self._cost(pairs, frame)
        matches = np.empty(len(known), np.int64)
        matches.fill(-1)
        self._match("first", matches, pairs, cost, settings.match_thresh, known if waiting or told else None, high)
        low = (scores > settings.track_low_thresh) & (scores < settings.track_high_thresh)
        if np.count_nonzero(low) or told:
            left = matches < 0
            left[tracked:] = False
            if waiting:
                left &= known
            self._match("second", matches, pairs, 1 - pairs.overlap, _SECOND_LIMIT, left, low)
        free, matched = high.copy(), (matches >= 0).nonzero()[0]
        free[matches[matched]] = False
        if waiting or told:
            self._match("unconfirmed", matches, pairs, cost, _UNCONFIRMED_LIMIT, ~known, free)
            matched = (matches >= 0).nonzero()[0]
            free[matches[matched]] = False
        return matches, matched, free

    def _expected(self) -> Floats:
        return self.motion.boxes()

    def _keep(self, rows: Ints) -> None:
        """These rows, in this order."""
        self.state.take(rows)
        self.motion.take(rows)

    def _pairs(self, frame: TrackerFrame) -> MatchedPairs:
        pairs = self._close(self.motion.boxes(), frame.boxes)
        if self.classes == "each":
            return pairs.where(self.state.labels[pairs.rows] == frame.labels[pairs.columns])
        return pairs

    def _close(self, tracks: Floats, boxes: Floats) -> MatchedPairs:
        return overlapping(tracks, boxes, border=self._border)

    def _cost(self, pairs: MatchedPairs, frame: TrackerFrame) -> Floats:
        if self.settings.mot20:
            return 1 - pairs.overlap
        return 1 - pairs.overlap * frame.scores[pairs.columns]

    def _match(
        self,
        stage: str,
        matches: Ints,
        pairs: MatchedPairs,
        cost: Floats,
        limit: float,
        rows: Bools | None,
        columns: Bools,
    ) -> None:
        """Writes the detection of each matched track into `matches`. No `rows`: all take part."""
        fit = cost <= limit
        fit &= columns[pairs.columns]
        if rows is not None:
            fit &= rows[pairs.rows]
        possible = fit.nonzero()[0]
        found = possible[assign(pairs.rows[possible], pairs.columns[possible], limit - cost[possible])]
        matches[pairs.rows[found]] = pairs.columns[found]
        if rows is not None:
            self._record(stage, rows, columns, pairs, cost, limit, found)

    def _continue(
        self, matches: Ints, rows: Ints, tracked: int, waiting: bool, high: Bools, frame: TrackerFrame
    ) -> tuple[Ints, int]:
        """`rows` were matched: they are corrected, and come first. Then come lost ones, and those just lost.

        The detections of the first rows, and how many of these were tracked before.
        """
        state, missed, count = self.state, (matches < 0).nonzero()[0], len(rows)
        newly = int(missed.searchsorted(tracked))
        newly_lost, still_lost, seen = missed[:newly], missed[newly:], matches[rows]
        if waiting:
            newly_lost = newly_lost[state.confirmed[newly_lost]]
        if Defect.LATE_REMOVAL in self.defects:
            still_lost, newly_lost = (some[~state.given_up[some]] for some in (still_lost, newly_lost))
        others = np.concatenate((still_lost, newly_lost)) if newly else still_lost
        state.take(np.concatenate((rows, others)))
        if count:
            self.motion.follow(rows, frame.boxes_of(seen), others)
            self._hit(count, seen, waiting, high, frame)
        else:
            self.motion.take(others)
        if Defect.LATE_REMOVAL in self.defects:
            limit = int(self.frame_rate / TICKS * self.settings.track_buffer)
            state.given_up[count:] |= self.frame - state.last[count:] > limit
        return seen, tracked - newly

    def _hit(self, count: int, seen: Ints, waiting: bool, high: Bools, frame: TrackerFrame) -> None:
        """The first tracks were matched to these detections."""
        state = self.state
        if waiting:
            confirmed = (~state.confirmed[:count]).nonzero()[0]
            state.confirmed[confirmed] = True
            if Defect.IDS_AT_BIRTH not in self.defects:
                state.ids[confirmed] = self._new_ids(len(confirmed))
        state.last[:count] = self.frame
        state.last_clock[:count] = frame.clock
        state.scores[:count] = frame.scores[seen]
        if frame.labelled:
            self._vote(np.arange(count), seen, frame)
        if frame.features is not None:
            confident = high[seen].nonzero()[0]
            self._look(confident, frame.features[seen[confident]])

    def _look(self, rows: Ints, features: Floats) -> None:
        """ByteTrack has no eye for appearance."""

    def _begin(self, born: Ints, place: int, frame: TrackerFrame) -> None:
        """These detections become tracks: rows from `place` on, where new ones were published."""
        self.state.insert(place, self._born(born, frame))
        self.motion.born(frame.boxes_of(born), place)

    def _without_duplicates(self, boxes: Floats, count: int) -> Ints | None:
        """A tracked and a lost one in the same place are one: the one that has lived longer stays. None: there are no
        such pairs. `count` are tracked."""
        state = self.state
        if not 0 < count < len(state.ids):
            return None
        lost, tracked, _ = self._in_one_place(boxes, count)
        if not len(tracked):
            return None
        lost = lost + count
        age = state.last - state.first
        longer = age[tracked] > age[lost]
        kept = np.ones(len(state.ids), bool)
        kept[lost[longer]] = False
        kept[tracked[~longer]] = False
        return kept.nonzero()[0]

    def _in_one_place(self, boxes: Floats, count: int) -> MatchedPairs:
        """Lost (rows) and tracked (columns), of the same class where classes are apart; `count` are tracked."""
        pairs, labels = coinciding(boxes, count, DUPLICATE, border=self._border), self.state.labels
        return pairs.where(labels[count + pairs.rows] == labels[pairs.columns]) if self.classes == "each" else pairs

    def _born(self, born: Ints, frame: TrackerFrame) -> ByteState:
        count, at_once, now = len(born), self.frame == 1, np.full(len(born), self.frame)
        at_birth = at_once or Defect.IDS_AT_BIRTH in self.defects
        ids = self._new_ids(count) if at_birth else np.zeros(count, np.int64)
        flag = np.ones(count, bool)
        return ByteState(
            ids, flag & at_once, ~flag, now, now, np.full(count, frame.clock), frame.scores[born],
            frame.labels[born], self._first_votes(born, frame), np.zeros((count, self.state.features.shape[1])),
        )  # fmt: skip

    def _given(self, boxes: Floats, seen: Ints, some_new: bool) -> Tracks:
        """Tracked ones; a new one not before it is confirmed."""
        rows = np.arange(len(seen))
        if some_new and not (Defect.ONE_FRAME_TRACKS in self.defects and self.gives_unconfirmed):
            rows = self.state.confirmed[: len(seen)].nonzero()[0]
        return self._tracks(rows, boxes, seen)

    def lost(self) -> Tracks:
        rows = (self.state.last < self.frame).nonzero()[0]
        return self._tracks(rows, self.motion.boxes(), np.full(len(self.state.ids), -1))

    def _tracks(self, rows: Ints, boxes: Floats, matches: Ints) -> Tracks:
        state = self.state
        return Tracks(
            state.ids[rows], boxes.T.take(rows, 1).T, state.scores[rows], state.labels[rows], state.confirmed[rows],
            matches[rows],
        )  # fmt: skip
