"""OC-SORT: observations are trusted more than the filter. Directions of motion help the association, tracks are looked
for where they were last observed, and after a gap the filter is run again along the straight line between observations.

The filter estimates centre, area and aspect ratio; the last has no velocity. A birth is no observation (as published):
a track has no direction and is not looked for until it has been matched once.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from yolofast.track.trackers import kalman
from yolofast.track.trackers.matching import Pairs, assign, every_pair, overlapping
from yolofast.track.trackers.tracker import Defect, Tracker
from yolofast.track.trackers.tracks import Bools, Floats, Frame, Ints, Tracks, joined, take

_LOW = 0.1
_POSITION_NOISE = np.array([1.0, 1.0, 1.0, 1.0])
_VELOCITY_NOISE = np.array([0.01, 0.01, 1e-4, 0.0])
_MEASUREMENT_NOISE = np.array([1.0, 1.0, 10.0, 10.0])
_FIRST_COV = np.array([[10.0, 10.0, 10.0, 10.0], [0.0] * 4, [1e4, 1e4, 1e4, 0.0]])
_GUARD = 1e-6


@dataclass(frozen=True)
class OcSortSettings:
    det_thresh: float = 0.6
    max_age: int = 30
    min_hits: int = 3
    iou_threshold: float = 0.3
    delta_t: int = 3
    asso_func: str = "iou"
    inertia: float = 0.2
    use_byte: bool = False


@dataclass
class OcState:
    mean: Floats
    cov: Floats
    ids: Ints
    age: Ints
    """Frames since its birth."""
    unseen: Ints
    """Frames since the last match, this one included."""
    unseen_time: Floats
    streak: Ints
    observed: Bools
    """Matched at least once after its birth."""
    box: Floats
    """The last observation."""
    history: Floats
    """[n, delta_t, 4]: observations by age modulo `delta_t`."""
    history_age: Ints
    """[n, delta_t]: at which age each was made, -1 for none."""
    direction: Floats
    """Of its motion, y then x; 0 if unknown."""
    missed_mean: Floats
    missed_cov: Floats
    """As they were, predicted, in the first frame of a gap."""
    in_gap: Bools
    scores: Floats
    labels: Ints
    votes: Floats


class OcSort(Tracker):
    name = "ocsort"
    settings: OcSortSettings
    state: OcState

    def _empty(self) -> OcState:
        none, flags, whole, steps = np.zeros(0), np.zeros(0, bool), np.zeros(0, np.int64), self._steps_back
        return OcState(
            np.zeros((0, 8)), np.zeros((0, 3, 4)), whole, whole, whole, none, whole, flags, np.zeros((0, 4)),
            np.zeros((0, steps, 4)), np.zeros((0, steps), np.int64), np.zeros((0, 2)), np.zeros((0, 8)),
            np.zeros((0, 3, 4)), flags, none, whole, np.zeros((0, 1)),
        )  # fmt: skip

    @property
    def _assigns_all(self) -> bool:
        return Defect.ASSIGN_THEN_DROP in self.defects

    @property
    def _steps_back(self) -> int:
        return max(int(self.settings.delta_t), 1)

    def _step(self, frame: Frame) -> Tracks:
        self._move(frame)
        state, settings, scores = self.state, self.settings, frame.scores
        high = scores > settings.det_thresh
        if Defect.STRICT_THRESHOLD not in self.defects:
            high = scores >= settings.det_thresh
        matches, everybody = np.full(len(state.ids), -1), np.ones(len(state.ids), bool)
        pairs = self._pairs(boxes_of(state.mean), frame)
        self._first(matches, pairs, everybody, high, frame)
        if settings.use_byte:
            low = (scores > _LOW) & (scores < settings.det_thresh)
            self._again("second", matches, pairs, matches < 0, low)
        free = high.copy()
        free[matches[matches >= 0]] = False
        if free.any() and (matches < 0).any():
            before = self._pairs(np.where(state.observed[:, None], state.box, -1.0), frame)
            self._again("last observed", matches, before, matches < 0, free)
            free[matches[matches >= 0]] = False

        self._miss((matches < 0).nonzero()[0])
        rows = (matches >= 0).nonzero()[0]
        self._observe(rows, frame.boxes[matches[rows]])
        state.scores[rows] = scores[matches[rows]]
        self._vote(rows, frame.labels[matches[rows]], scores[matches[rows]])
        born = free.nonzero()[0]
        if len(born):
            self._widen_votes(frame.labels[born])
            self.state, matches = joined(self.state, self._born(born, frame)), np.append(matches, born)
        return self._given(matches)

    def _move(self, frame: Frame) -> None:
        state = self.state
        shrinks = state.mean[:, 2] + state.mean[:, 6] * frame.elapsed <= 0
        state.mean[shrinks, 6] = 0.0
        kalman.predict(state.mean, state.cov, frame.elapsed, _POSITION_NOISE, _VELOCITY_NOISE)
        state.age += 1
        state.streak[state.unseen > 0] = 0
        state.unseen += 1
        state.unseen_time += frame.elapsed

    def _pairs(self, boxes: Floats, frame: Frame) -> Pairs:
        """Faithful: all of them, for those that do not overlap take part in the assignment, too."""
        pairs = (every_pair if self._assigns_all else overlapping)(boxes, frame.boxes)
        if self.classes == "each":
            same = self.state.labels[pairs.rows] == frame.labels[pairs.columns]
            return pairs._replace(overlap=np.where(same, pairs.overlap, 0.0))
        return pairs

    def _first(self, matches: Ints, pairs: Pairs, rows: Bools, columns: Bools, frame: Frame) -> None:
        limit = self.settings.iou_threshold
        close = (columns[pairs.columns] & (pairs.overlap > limit)).nonzero()[0]
        one_to_one = max(_most(pairs.rows[close]), _most(pairs.columns[close])) == 1
        bonus = None if one_to_one else self._direction_bonus(pairs, frame)
        self._match("first", matches, pairs, rows, columns, bonus)

    def _again(self, stage: str, matches: Ints, pairs: Pairs, rows: Bools, columns: Bools) -> None:
        took_part = rows[pairs.rows] & columns[pairs.columns]
        if (pairs.overlap[took_part] > self.settings.iou_threshold).any():
            self._match(stage, matches, pairs, rows, columns, np.zeros(len(pairs.rows)))

    def _match(
        self, stage: str, matches: Ints, pairs: Pairs, rows: Bools, columns: Bools, bonus: Floats | None
    ) -> None:
        """By the greatest overlap and bonus; without a bonus the pairs that overlap enough are one-to-one."""
        limit = self.settings.iou_threshold
        possible = rows[pairs.rows] & columns[pairs.columns]
        if bonus is None:
            found = (possible & (pairs.overlap > limit)).nonzero()[0]
        else:
            # What overlaps too little is dropped afterwards, as published.
            some = possible.nonzero()[0]
            value = pairs.overlap[some] + bonus[some]
            found = some[_assign_all(pairs.rows[some], pairs.columns[some], value, all_pairs=self._assigns_all)]
            found = found[pairs.overlap[found] >= limit]
        matches[pairs.rows[found]] = pairs.columns[found]
        self._record(stage, rows, columns, pairs, 1 - pairs.overlap, 1 - limit, found)

    def _direction_bonus(self, pairs: Pairs, frame: Frame) -> Floats:
        """For detections that lie in the direction in which a track has moved."""
        state = self.state
        towards = _directions(self._observed_before()[pairs.rows], frame.boxes[pairs.columns])
        cosine = (state.direction[pairs.rows] * towards).sum(1).clip(-1, 1)
        bonus = (np.pi / 2 - np.arccos(cosine)) / np.pi * self.settings.inertia * frame.scores[pairs.columns]
        return np.where(state.observed[pairs.rows], bonus, 0.0)

    def _observed_before(self) -> Floats:
        """The observation `delta_t` frames ago; where there is none a younger one, at last the newest."""
        state, steps = self.state, self._steps_back
        rows = np.arange(len(state.ids))
        ages = state.age[:, None] - np.arange(steps, 0, -1)
        slots = ages % steps
        there = (state.history_age[rows[:, None], slots] == ages) & (ages >= 0)
        earliest = slots[rows, there.argmax(1)]
        return np.where(there.any(1)[:, None], state.history[rows, earliest], state.box)

    def _miss(self, rows: Ints) -> None:
        state = self.state
        begins = rows[state.observed[rows] & ~state.in_gap[rows]]
        state.missed_mean[begins], state.missed_cov[begins] = state.mean[begins], state.cov[begins]
        state.in_gap[begins] = True

    def _observe(self, rows: Ints, boxes: Floats) -> None:
        if not len(rows):
            return
        state, steps = self.state, self._steps_back
        before = self._observed_before()[rows]
        state.direction[rows] = np.where(state.observed[rows, None], _directions(before, boxes), 0.0)
        gap = state.in_gap[rows]
        if gap.any():
            self._run_again(rows[gap], boxes[gap])
        mean, cov = state.mean[rows], state.cov[rows]
        kalman.correct(mean, cov, measured(boxes), _MEASUREMENT_NOISE)
        state.mean[rows], state.cov[rows] = mean, cov
        slot = state.age[rows] % steps
        state.history[rows, slot], state.history_age[rows, slot] = boxes, state.age[rows]
        state.box[rows], state.observed[rows], state.in_gap[rows] = boxes, True, False
        state.unseen[rows], state.unseen_time[rows] = 0, 0.0
        state.streak[rows] += 1

    def _run_again(self, rows: Ints, boxes: Floats) -> None:
        """From the first missed frame on, along the line from the last observation to this one."""
        state = self.state
        frames = state.unseen[rows]
        step = state.unseen_time[rows] / frames
        mean, cov = state.missed_mean[rows], state.missed_cov[rows]
        start, end = _centre_and_size(measured(state.box[rows])), _centre_and_size(measured(boxes))
        for count in range(1, int(frames.max()) + 1):
            going = count <= frames
            share = (count / frames[going])[:, None]
            between = start[going] + share * (end[going] - start[going])
            some_mean, some_cov = mean[going], cov[going]
            size = between[:, 2:]
            along = np.stack((*between[:, :2].T, size[:, 0] * size[:, 1], size[:, 0] / size[:, 1]), axis=1)
            kalman.correct(some_mean, some_cov, along, _MEASUREMENT_NOISE)
            goes_on = count < frames[going]
            elapsed = np.where(goes_on, step[going], 0.0)[:, None]
            kalman.predict(some_mean, some_cov, elapsed, _POSITION_NOISE, _VELOCITY_NOISE)
            mean[going], cov[going] = some_mean, some_cov
        state.mean[rows], state.cov[rows] = mean, cov

    def _born(self, born: Ints, frame: Frame) -> OcState:
        count, steps = len(born), self._steps_back
        mean = np.concatenate((measured(frame.boxes[born]), np.zeros((count, 4))), axis=1)
        cov, none = np.tile(_FIRST_COV, (count, 1, 1)), np.zeros(count, np.int64)
        return OcState(
            mean, cov, self._new_ids(count), none, none.copy(), np.zeros(count), none.copy(), np.zeros(count, bool),
            frame.boxes[born], np.zeros((count, steps, 4)), np.full((count, steps), -1), np.zeros((count, 2)),
            mean.copy(), cov.copy(), np.zeros(count, bool), frame.scores[born], frame.labels[born],
            self._first_votes(born, frame),
        )  # fmt: skip

    def _given(self, shown: Ints) -> Tracks:
        """The youngest first, as published."""
        state, settings = self.state, self.settings
        fresh = (state.streak >= settings.min_hits) | (self.frame <= settings.min_hits)
        given = ((state.unseen < 1) & fresh).nonzero()[0][::-1]
        boxes = np.where(state.observed[given, None], state.box[given], boxes_of(state.mean[given]))
        tracks = Tracks(
            state.ids[given], boxes, state.scores[given], state.labels[given], np.ones(len(given), bool), shown[given]
        )
        if Defect.FRAMES_AS_TIME in self.defects:
            old = state.unseen > settings.max_age
        else:
            old = state.unseen_time > settings.max_age + _GUARD
        if old.any():
            self.state = take(state, ~old)
        return tracks

    def lost(self) -> Tracks:
        state = self.state
        rows = (state.unseen > 0) & state.observed
        none = np.full(int(rows.sum()), -1)
        return Tracks(
            state.ids[rows], boxes_of(state.mean[rows]), state.scores[rows], state.labels[rows], none == -1, none
        )


def measured(boxes: Floats) -> Floats:
    """Centre, area, aspect ratio."""
    size = boxes[:, 2:] - boxes[:, :2]
    centre = boxes[:, :2] + size / 2
    return np.stack((*centre.T, size[:, 0] * size[:, 1], size[:, 0] / (size[:, 1] + _GUARD)), axis=1)


def boxes_of(mean: Floats) -> Floats:
    width = np.sqrt(np.maximum(mean[:, 2] * mean[:, 3], 0))
    height = mean[:, 2] / np.maximum(width, _GUARD)
    half = np.stack((width, height), axis=1) / 2
    return np.concatenate((mean[:, :2] - half, mean[:, :2] + half), axis=1)


def _centre_and_size(values: Floats) -> Floats:
    """Of centre, area and aspect ratio."""
    width, height = np.sqrt(values[:, 2] * values[:, 3]), np.sqrt(values[:, 2] / values[:, 3])
    return np.stack((values[:, 0], values[:, 1], width, height), axis=1)


def _most(positions: Ints) -> int:
    """How often the most frequent one is there."""
    return int(np.bincount(positions).max()) if len(positions) else 0


def _assign_all(rows: Ints, columns: Ints, value: Floats, *, all_pairs: bool) -> Ints:
    """Positions of the pairs with the greatest Σ value: as many as the shorter side has where all pairs are given."""
    if not all_pairs or not len(rows):
        return assign(rows, columns, np.maximum(value, 0.0))
    count = len(np.unique(rows))
    found = linear_sum_assignment(value.reshape(count, -1), maximize=True)
    return np.asarray(found[0] * (len(value) // count) + found[1])


def _directions(first: Floats, second: Floats) -> Floats:
    """Unit vectors between the centres of boxes."""
    way = (second[..., :2] + second[..., 2:] - first[..., :2] - first[..., 2:]) / 2
    found: Floats = way / (np.linalg.norm(way, axis=-1, keepdims=True) + _GUARD)
    return found
