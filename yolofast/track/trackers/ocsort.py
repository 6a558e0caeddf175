"""OC-SORT: observations are trusted more than the filter. Directions of motion help the association, tracks are looked
for where they were last observed, and after a gap motion is believed to have been straight (`motion/area_filter.py`).

A birth is no observation (as published): a track has no direction and is not looked for until it has been matched once.
Places and ways are complex numbers, x + iy: half as many calls of NumPy. Axes of arrays: coordinates first, tracks
last.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from yolofast.track.trackers.matching import MatchedPairs, assign, every_pair, overlapping, without_rivals
from yolofast.track.trackers.motion.area_filter import KalmanArea
from yolofast.track.trackers.motion.model import Gaps
from yolofast.track.trackers.moving import MovingTracker
from yolofast.track.trackers.settings import OcSortSettings
from yolofast.track.trackers.streaks import StreakState, StreakTracker
from yolofast.track.trackers.tracker import Defect
from yolofast.track.trackers.tracks import Bools, Floats, Ints, TrackerFrame, Tracks

_LOW = 0.1
_GUARD, _HALF = np.array(1e-6), np.array(0.5)

Places = NDArray[np.complex128]


@dataclass
class OcState(StreakState):
    observed: Bools
    """Matched at least once after its birth."""
    box: Floats
    """The last observation, [4, n], or the one at birth."""
    centre: Places
    """Of that box."""
    origin: Places
    """The centre from which it moved there; the same place if nothing is known."""
    history: Places
    """[delta_t, n]: centres in the last frames, by frame modulo `delta_t`; where it was missed the next one that was
    observed, or the last."""


class OcSort(MovingTracker, StreakTracker):
    name = "ocsort"
    own_motion = KalmanArea
    settings: OcSortSettings
    state: OcState

    def _empty(self) -> OcState:
        return self._with_history(self._nobody(), np.zeros((4, 0)), np.zeros(0, np.complex128))

    def _with_history(self, columns: dict[str, NDArray[Any]], boxes: Floats, centres: Places) -> OcState:
        """Tracks that begin there."""
        count, steps = boxes.shape[1], self._steps_back
        return OcState(
            **columns, observed=np.zeros(count, bool), box=boxes, centre=centres, origin=centres.copy(),
            history=np.repeat(centres[None], steps, axis=0),
        )  # fmt: skip

    @cached_property
    def _assigns_all(self) -> bool:
        return Defect.ASSIGN_THEN_DROP in self.defects

    @cached_property
    def _steps_back(self) -> int:
        return max(int(self.settings.delta_t), 1)

    def _step(self, frame: TrackerFrame) -> Tracks:
        state, settings, scores = self.state, self.settings, frame.scores
        kept = self._drop_old(frame, settings.max_age)
        if kept is not None:
            self.motion.take(kept)
        self.motion.predict(frame, len(state.ids), None)
        strict = Defect.STRICT_THRESHOLD in self.defects
        high = scores > settings.det_thresh if strict else scores >= settings.det_thresh
        matches = np.empty(len(state.ids), np.int64)
        matches.fill(-1)
        boxes, centres = frame.boxes.T, _centres(frame.boxes)
        before, expected = state.history[self.frame % self._steps_back], self.motion.boxes()
        self._first(matches, expected, high, before, centres, frame)
        if settings.use_byte:
            self._second(matches, expected, (scores > _LOW) & (scores < settings.det_thresh), frame)
        hit, free = matches >= 0, high.copy()
        rows = hit.nonzero()[0]
        columns = matches[rows]
        free[columns] = False
        born = free.nonzero()[0]
        if len(born) and len(rows) < len(matches) and self._look_back(matches, free, born, frame):
            hit = matches >= 0
            rows = hit.nonzero()[0]
            columns = matches[rows]
            free[columns] = False
            born = free.nonzero()[0]
        self._observe(matches, hit, rows, columns, before, centres, frame)
        kept = self._drop_late(frame, settings.max_age)
        if kept is not None:
            self.motion.take(kept)
            matches = matches[kept]
        if len(born):
            new = boxes.take(born, 1)
            self.motion.born(new.T, len(matches))
            state.join(self._with_history(self._newborn(born, scores, frame), new, centres[born]))
            matches = np.concatenate((matches, born))
        # The youngest first, as published.
        return self._tracks(self._shown(settings.min_hits)[::-1], matches)

    def _expected(self) -> Floats:
        return self.motion.boxes()

    def _pairs(self, boxes: Floats, columns: Ints, frame: TrackerFrame, rows: Ints | None = None) -> MatchedPairs:
        """Of tracks (`rows`: of these) and of these detections. Faithful: all of them, for those that do not overlap
        take part in the assignment, too. Of different classes, where these are apart, they do not overlap."""
        every = len(columns) == len(frame.scores)
        seen = frame.boxes if every else frame.boxes_of(columns)
        own, other, overlap = (every_pair if self._assigns_all else overlapping)(boxes, seen)
        own, other = own if rows is None else rows[own], other if every else columns[other]
        if self.classes == "each":
            overlap = np.where(self.state.labels[own] == frame.labels[other], overlap, 0.0)
        return MatchedPairs(own, other, overlap)

    def _first(
        self, matches: Ints, boxes: Floats, high: Bools, before: Places, centres: Places, frame: TrackerFrame
    ) -> None:  # fmt: skip
        """Pairs that overlap enough if they are one-to-one; otherwise by the greatest overlap and bonus."""
        pairs = self._pairs(boxes, high.nonzero()[0], frame)
        found = self._enough(pairs)
        sure = without_rivals(pairs.rows[found], pairs.columns[found])
        if np.count_nonzero(sure) < len(found) or not len(found):
            if self._assigns_all:
                found = self._assigned(pairs, self._value(pairs, before, centres, frame.scores))
            else:  # pairs without a rival are matched whatever the bonus
                unsure = (~sure).nonzero()[0]
                some = pairs.at(found[unsure])
                sure[unsure[self._assigned(some, self._value(some, before, centres, frame.scores))]] = True
                found = found[sure]
        self._write("first", matches, pairs, found, matches < 0, high)

    def _second(self, matches: Ints, boxes: Floats, low: Bools, frame: TrackerFrame) -> None:
        left = matches < 0
        rows = left.nonzero()[0]
        self._again("second", matches, self._pairs(boxes[rows], low.nonzero()[0], frame, rows), left, low)

    def _look_back(self, matches: Ints, free: Bools, columns: Ints, frame: TrackerFrame) -> bool:
        """Tracks that are left, where they were last observed, and detections that are: whether any were matched."""
        left = matches < 0
        rows = left.nonzero()[0]
        boxes = np.where(self.state.observed[rows], self.state.box.take(rows, 1), -1.0).T
        return self._again("last observed", matches, self._pairs(boxes, columns, frame, rows), left, free)

    def _again(self, stage: str, matches: Ints, pairs: MatchedPairs, rows: Bools, columns: Bools) -> bool:
        """By the greatest overlap: whether any were matched."""
        found = self._enough(pairs)
        if len(found):
            some = pairs if self._assigns_all else pairs.at(found)
            chosen = self._assigned(some, some.overlap)
            self._write(stage, matches, pairs, chosen if some is pairs else found[chosen], rows, columns.copy())
        return len(found) > 0

    def _enough(self, pairs: MatchedPairs) -> Ints:
        """Which ones overlap enough to be matched."""
        limit = self.settings.iou_threshold
        return (pairs.overlap > limit if self._assigns_all else pairs.overlap >= limit).nonzero()[0]

    def _assigned(self, pairs: MatchedPairs, value: Floats) -> Ints:
        """Faithful: what overlaps too little takes part, and is dropped afterwards, which can cost good pairs."""
        if not self._assigns_all or not len(value):
            return assign(pairs.rows, pairs.columns, value)
        width = int(pairs.rows.searchsorted(pairs.rows[0], side="right"))  # all pairs of a row stand together
        rows, columns = linear_sum_assignment(value.reshape(-1, width), maximize=True)
        found = rows * width + columns
        return np.asarray(found[pairs.overlap[found] >= self.settings.iou_threshold])

    def _write(self, stage: str, matches: Ints, pairs: MatchedPairs, found: Ints, rows: Bools, columns: Bools) -> None:
        matches[pairs.rows[found]] = pairs.columns[found]
        if self.stages is not None:
            self._record(stage, rows, columns, pairs, 1 - pairs.overlap, 1 - self.settings.iou_threshold, found)

    def _value(self, pairs: MatchedPairs, before: Places, centres: Places, scores: Floats) -> Floats:
        """Of each pair: its overlap, and a bonus for a detection that lies in the direction in which the track has
        moved; 0 if that is unknown."""
        state, (rows, columns, overlap) = self.state, pairs
        to, along = centres[columns] - before[rows], state.centre - state.origin
        lengths = np.abs(to) + _GUARD
        lengths *= (np.abs(along) + _GUARD)[rows]  # longer than their product: no cosine is above 1
        to *= along.conj()[rows]
        bonus: Floats = np.arcsin(to.real / lengths)
        bonus *= scores[columns]
        bonus *= self.settings.inertia / np.pi
        bonus += overlap
        return bonus

    def _observe(
        self, matches: Ints, hit: Bools, rows: Ints, columns: Ints, before: Places, centres: Places, frame: TrackerFrame
    ) -> None:  # fmt: skip
        """`rows` were matched to `columns`. What was is written for all tracks at once, with a mask: faster than by
        rows."""
        state, steps = self.state, self._steps_back
        again = self._missed_before(rows)
        self.motion.correct(rows, frame.boxes_of(columns), self._gaps(rows, again, frame) if len(again) else None)
        if len(rows):
            first = (hit > state.observed).nonzero()[0]
            np.copyto(state.origin, before, where=hit)
            np.copyto(state.box, frame.boxes.T.take(matches, 1), where=hit)  # of those without a match any
            np.copyto(state.centre, centres[matches], where=hit)
            if len(first):
                state.history[:, first] = state.origin[first] = state.centre[first]
                state.observed |= hit
            missed = rows[again]
            for back in range(1, steps):
                if back > 1:
                    missed = missed[state.last[missed] < self.frame - back]
                if not len(missed):
                    break
                state.history[(self.frame - back) % steps, missed] = state.centre[missed]
            self._hit(rows, columns, again, frame.scores, frame)
        state.history[self.frame % steps] = state.centre

    def _gaps(self, rows: Ints, again: Ints, frame: TrackerFrame) -> Gaps | None:
        """Of those of `rows` that had been missed, if they had been observed before."""
        state, some = self.state, rows[again]
        observed = state.observed[some]
        if np.count_nonzero(observed) < len(some):
            again = again[observed]
            some = rows[again]
            if not len(again):
                return None
        last = state.last[some]
        order = last.argsort(kind="stable")  # the longest gaps first
        return Gaps(again[order], self.frame - last[order], frame.clock - state.last_clock[some[order]])

    def lost(self) -> Tracks:
        rows = self._lost(self.settings.min_hits)
        none = np.full(len(self.state.ids), -1)
        return replace(self._tracks(rows, none), boxes=self.motion.boxes()[rows])

    def _tracks(self, rows: Ints, matches: Ints) -> Tracks:
        state = self.state
        observed, boxes = state.observed[rows], state.box.take(rows, 1).T
        if np.count_nonzero(observed) < len(rows):
            boxes = np.where(observed[:, None], boxes, self.motion.boxes()[rows])
        return Tracks(state.ids[rows], boxes, state.scores[rows], state.labels[rows], rows >= 0, matches[rows])


def _centres(boxes: Floats) -> Places:
    corners, found = boxes.T, np.empty(len(boxes), np.complex128)
    np.add(corners[0], corners[2], out=found.real)
    np.add(corners[1], corners[3], out=found.imag)
    found *= _HALF
    return found
