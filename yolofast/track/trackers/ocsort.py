"""OC-SORT: observations are trusted more than the filter. Directions of motion help the association, tracks are looked
for where they were last observed, and after a gap motion is believed to have been straight (`motion/area_filter.py`).

A birth is no observation (as published): a track has no direction and is not looked for until it has been matched once.
Axes of arrays: coordinates first, tracks last.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from yolofast.track.trackers.matching import Pairs, assign, every_pair, overlapping
from yolofast.track.trackers.motion.area_filter import KalmanArea
from yolofast.track.trackers.motion.model import Gaps
from yolofast.track.trackers.moving import MovingTracker
from yolofast.track.trackers.settings import OcSortSettings
from yolofast.track.trackers.streaks import StreakState, StreakTracker
from yolofast.track.trackers.tracker import Defect
from yolofast.track.trackers.tracks import Bools, Floats, Frame, Ints, Tracks

_LOW = 0.1
_GUARD, _HALF, _ONE, _MINUS_ONE = np.array(1e-6), np.array(0.5), np.array(1.0), np.array(-1.0)


@dataclass
class OcState(StreakState):
    observed: Bools
    """Matched at least once after its birth."""
    box: Floats
    """The last observation, [4, n], or the one at birth."""
    centre: Floats
    """Of that box, [2, n]."""
    origin: Floats
    """The centre from which it moved there, [2, n]; the same place if nothing is known."""
    history: Floats
    """[delta_t, 2, n]: centres in the last frames, by frame modulo `delta_t`; where it was missed the next one that was
    observed, or the last."""


class OcSort(MovingTracker, StreakTracker):
    name = "ocsort"
    own_motion = KalmanArea
    settings: OcSortSettings
    state: OcState

    def _empty(self) -> OcState:
        return self._with_history(self._nobody(), np.zeros((4, 0)), np.zeros((2, 0)))

    def _with_history(self, columns: dict[str, NDArray[Any]], boxes: Floats, centres: Floats) -> OcState:
        """Tracks that begin there."""
        count, steps = boxes.shape[1], self._steps_back
        return OcState(
            **columns, observed=np.zeros(count, bool), box=boxes, centre=centres, origin=centres.copy(),
            history=np.repeat(centres[None], steps, axis=0),
        )  # fmt: skip

    @property
    def _assigns_all(self) -> bool:
        return Defect.ASSIGN_THEN_DROP in self.defects

    @cached_property
    def _steps_back(self) -> int:
        return max(int(self.settings.delta_t), 1)

    def _step(self, frame: Frame) -> Tracks:
        state, settings, scores = self.state, self.settings, frame.scores
        kept = self._drop_old(frame, settings.max_age)
        if kept is not None:
            self.motion.take(kept)
        self.motion.predict(frame, len(state.ids), None)
        strict = Defect.STRICT_THRESHOLD in self.defects
        high = scores > settings.det_thresh if strict else scores >= settings.det_thresh
        matches = np.empty(len(state.ids), np.int64)
        matches.fill(-1)
        boxes = frame.boxes.T
        centres = boxes[:2] + boxes[2:]
        centres *= _HALF
        before, expected = state.history[self.frame % self._steps_back], self.motion.boxes()
        self._first(matches, expected, high, before, centres, frame)
        if settings.use_byte:
            self._second(matches, expected, (scores > _LOW) & (scores < settings.det_thresh), frame)
        free, rows = high.copy(), (matches >= 0).nonzero()[0]
        free[matches[rows]] = False
        born = free.nonzero()[0]
        if len(born) and len(rows) < len(matches):
            self._look_back(matches, free, born, frame)
            rows = (matches >= 0).nonzero()[0]
            free[matches[rows]] = False
            born = free.nonzero()[0]
        self._observe(matches, rows, before, centres, frame)
        kept = self._drop_late(frame, settings.max_age)
        if kept is not None:
            self.motion.take(kept)
            matches = matches[kept]
        if len(born):
            new = boxes.take(born, 1)
            self.motion.born(new.T, len(matches))
            state.join(self._with_history(self._newborn(born, scores, frame), new, centres.take(born, 1)))
            matches = np.concatenate((matches, born))
        # The youngest first, as published.
        return self._tracks(self._shown(settings.min_hits)[::-1], matches)

    def _expected(self) -> Floats:
        return self.motion.boxes()

    def _pairs(self, boxes: Floats, columns: Ints, frame: Frame, rows: Ints | None = None) -> Pairs:
        """Of tracks (`rows`: of these) and of these detections. Faithful: all of them, for those that do not overlap
        take part in the assignment, too. Of different classes, where these are apart, they do not overlap."""
        every = len(columns) == len(frame.scores)
        seen = frame.boxes if every else frame.boxes_of(columns)
        own, other, overlap = (every_pair if self._assigns_all else overlapping)(boxes, seen)
        own, other = own if rows is None else rows[own], other if every else columns[other]
        if self.classes == "each":
            overlap = np.where(self.state.labels[own] == frame.labels[other], overlap, 0.0)
        return Pairs(own, other, overlap)

    def _first(
        self, matches: Ints, boxes: Floats, high: Bools, before: Floats, centres: Floats, frame: Frame
    ) -> None:  # fmt: skip
        """Pairs that overlap enough if they are one-to-one; otherwise by the greatest overlap and bonus."""
        pairs = self._pairs(boxes, high.nonzero()[0], frame)
        found = self._enough(pairs)
        if not (_are_once(pairs.rows[found]) and _are_once(pairs.columns[found])):
            some = pairs if self._assigns_all else pairs.at(found)
            value = self._direction_bonus(some, before, centres, frame.scores)
            value += some.overlap
            chosen = self._assigned(some, value)
            found = chosen if some is pairs else found[chosen]
        self._write("first", matches, pairs, found, matches < 0, high)

    def _second(self, matches: Ints, boxes: Floats, low: Bools, frame: Frame) -> None:
        left = matches < 0
        rows = left.nonzero()[0]
        self._again("second", matches, self._pairs(boxes[rows], low.nonzero()[0], frame, rows), left, low)

    def _look_back(self, matches: Ints, free: Bools, columns: Ints, frame: Frame) -> None:
        """Tracks that are left, where they were last observed, and detections that are."""
        left = matches < 0
        rows = left.nonzero()[0]
        boxes = np.where(self.state.observed[rows], self.state.box.take(rows, 1), -1.0).T
        self._again("last observed", matches, self._pairs(boxes, columns, frame, rows), left, free)

    def _again(self, stage: str, matches: Ints, pairs: Pairs, rows: Bools, columns: Bools) -> None:
        """By the greatest overlap."""
        found = self._enough(pairs)
        if len(found):
            some = pairs if self._assigns_all else pairs.at(found)
            chosen = self._assigned(some, some.overlap)
            self._write(stage, matches, pairs, chosen if some is pairs else found[chosen], rows, columns.copy())

    def _enough(self, pairs: Pairs) -> Ints:
        """Which ones overlap enough to be matched."""
        limit = self.settings.iou_threshold
        return (pairs.overlap > limit if self._assigns_all else pairs.overlap >= limit).nonzero()[0]

    def _assigned(self, pairs: Pairs, value: Floats) -> Ints:
        """Faithful: what overlaps too little takes part, and is dropped afterwards, which can cost good pairs."""
        if not self._assigns_all or not len(value):
            return assign(pairs.rows, pairs.columns, value)
        count = len(np.unique(pairs.rows))
        rows, columns = linear_sum_assignment(value.reshape(count, -1), maximize=True)
        found = rows * (len(value) // count) + columns
        return np.asarray(found[pairs.overlap[found] >= self.settings.iou_threshold])

    def _write(self, stage: str, matches: Ints, pairs: Pairs, found: Ints, rows: Bools, columns: Bools) -> None:
        matches[pairs.rows[found]] = pairs.columns[found]
        if self.stages is not None:
            self._record(stage, rows, columns, pairs, 1 - pairs.overlap, 1 - self.settings.iou_threshold, found)

    def _direction_bonus(self, pairs: Pairs, before: Floats, centres: Floats, scores: Floats) -> Floats:
        """For detections that lie in the direction in which a track has moved; 0 if that is unknown."""
        state, (rows, columns, _) = self.state, pairs
        to_x, to_y = centres.take(columns, 1) - before.take(rows, 1)
        along_x, along_y = (state.centre - state.origin).take(rows, 1)
        length = np.sqrt(to_x * to_x + to_y * to_y)
        length += _GUARD
        other = np.sqrt(along_x * along_x + along_y * along_y)
        other += _GUARD
        length *= other
        to_x *= along_x
        to_y *= along_y
        to_x += to_y
        to_x /= length
        np.maximum(to_x, _MINUS_ONE, out=to_x)
        np.minimum(to_x, _ONE, out=to_x)
        bonus: Floats = np.arcsin(to_x, out=to_x)
        bonus *= scores[columns]
        bonus *= self.settings.inertia / np.pi
        return bonus

    def _observe(self, matches: Ints, rows: Ints, before: Floats, centres: Floats, frame: Frame) -> None:
        """`rows` were matched. What was is written for all tracks at once, with a mask: faster than by rows."""
        state, hit, steps = self.state, matches >= 0, self._steps_back
        columns, again = matches[rows], self._missed_before(rows)
        self.motion.correct(rows, frame.boxes_of(columns), self._gaps(rows, again, frame) if len(again) else None)
        if len(rows):
            first = (hit > state.observed).nonzero()[0]
            np.copyto(state.origin, before, where=hit)
            np.copyto(state.box, frame.boxes.T.take(matches, 1), where=hit)  # of those without a match any
            np.copyto(state.centre, centres.take(matches, 1), where=hit)
            if len(first):
                state.history[:, :, first] = state.origin[:, first] = state.centre[:, first]
                state.observed |= hit
            missed, back = rows[again], 1
            while len(missed) and back < steps:
                state.history[(self.frame - back) % steps][:, missed] = state.centre.take(missed, 1)
                back += 1
                missed = missed[state.last[missed] < self.frame - back]
            self._hit(rows, columns, again, frame.scores, frame)
        state.history[self.frame % steps] = state.centre

    def _gaps(self, rows: Ints, again: Ints, frame: Frame) -> Gaps | None:
        """Of those of `rows` that had been missed, if they had been observed before."""
        state, some = self.state, rows[again]
        if np.count_nonzero(state.observed[some]) < len(some):
            again = again[state.observed[some]]
            some = rows[again]
            if not len(again):
                return None
        order = state.last[some].argsort(kind="stable")  # the longest gaps first
        some = some[order]
        return Gaps(again[order], self.frame - state.last[some], frame.clock - state.last_clock[some])

    def lost(self) -> Tracks:
        rows = self._lost()
        none = np.full(len(self.state.ids), -1)
        return replace(self._tracks(rows, none), boxes=self.motion.boxes()[rows])

    def _tracks(self, rows: Ints, matches: Ints) -> Tracks:
        state = self.state
        observed, boxes = state.observed[rows], state.box.take(rows, 1).T
        if np.count_nonzero(observed) < len(rows):
            boxes = np.where(observed[:, None], boxes, self.motion.boxes()[rows])
        return Tracks(state.ids[rows], boxes, state.scores[rows], state.labels[rows], rows >= 0, matches[rows])


def _are_once(positions: Ints) -> bool:
    """There are some, and none twice."""
    return 0 < len(positions) == len(set(positions.tolist()))
