"""ByteTrack and BoT-SORT: confident detections first, then the others for tracks that are about to be lost.

Both take the same steps per frame (docs/tracking.md); they differ in what the filter estimates (aspect ratio and height,
or width and height), in camera motion and appearance, and in what they give out. A frame is one function over arrays:
predict all, overlap of all with all, three associations, one correction of all that were matched.

Rows of the state are the tracked ones in the published order, then the lost ones.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from yolofast.track.trackers import kalman
from yolofast.track.trackers.matching import assign, overlaps, rest
from yolofast.track.trackers.tracker import Tracker, no_stage
from yolofast.track.trackers.tracks import Bools, Floats, Frame, Ints, Tracks, joined, take

_SECOND_LIMIT, _UNCONFIRMED_LIMIT, _DUPLICATE = 0.5, 0.7, 0.15
_POSITION, _VELOCITY = 1 / 20, 1 / 160
"""Standard deviations, as shares of the box's size."""
_KEPT_FEATURE = 0.9
_BUFFER_RATE = 30.0
"""`track_buffer` counts frames at this rate, whatever that of the video."""


@dataclass(frozen=True)
class ByteTrackSettings:
    track_thresh: float = 0.6
    track_low_thresh: float = 0.1
    new_track_thresh: float | None = None
    """By default `track_thresh` + 0.1."""
    match_thresh: float = 0.9
    """The greatest cost of a match: higher is more permissive."""
    track_buffer: int = 30
    mot20: bool = False
    """Costs are overlaps alone, without the detection's score."""

    @property
    def track_high_thresh(self) -> float:
        return self.track_thresh


@dataclass(frozen=True)
class BotSortSettings:
    track_high_thresh: float = 0.6
    track_low_thresh: float = 0.1
    new_track_thresh: float | None = 0.7
    match_thresh: float = 0.8
    track_buffer: int = 30
    mot20: bool = False
    with_reid: bool = False
    proximity_thresh: float = 0.5
    """Appearance counts up to this distance (1 − IoU)."""
    appearance_thresh: float = 0.25
    cmc_method: str = "sparseOptFlow"


@dataclass
class ByteState:
    mean: Floats
    cov: Floats
    ids: Ints
    """0 until a track is confirmed, unless faithful."""
    tracked: Bools
    confirmed: Bools
    given_up: Bools
    """Faithful: removed before this frame, and yet still to be matched once."""
    first: Ints
    last: Ints
    """Frames of the first and the last match."""
    last_time: Floats
    scores: Floats
    labels: Ints
    votes: Floats
    features: Floats
    """[n, d]; d is 0 without appearance, a row is 0 where a track has none yet."""


class ByteTrack(Tracker):
    name = "bytetrack"
    gives_unconfirmed: ClassVar[bool] = False
    settings: ByteTrackSettings | BotSortSettings
    state: ByteState

    def _empty(self) -> ByteState:
        none, flags, whole = np.zeros(0), np.zeros(0, bool), np.zeros(0, np.int64)
        return ByteState(
            np.zeros((0, 8)), np.zeros((0, 3, 4)), whole, flags, flags, flags, whole, whole, none, none, whole,
            np.zeros((0, 1)), np.zeros((0, 0)),
        )  # fmt: skip

    def _step(self, frame: Frame) -> Tracks:
        settings = self.settings
        if not self.faithful:
            self._give_up_late_ones(frame.time)
        self._move(frame)
        state, scores = self.state, frame.scores
        if self.faithful:
            high = (scores > settings.track_high_thresh).nonzero()[0]
        else:
            high = (scores >= settings.track_high_thresh).nonzero()[0]
        low = ((scores > settings.track_low_thresh) & (scores < settings.track_high_thresh)).nonzero()[0]
        distance = 1.0 - overlaps(self._boxes(state.mean), frame.boxes, border=float(self.faithful))
        distance = self._apart(distance, state.labels, frame.labels)
        confirmed = state.confirmed | ~state.tracked
        pool = confirmed.nonzero()[0]

        rows, seen = self._matched("first", pool, high, self._cost(distance, pool, high, frame), settings.match_thresh)
        left = pool[rest(len(pool), np.searchsorted(pool, rows))]
        left = left[state.tracked[left]]
        plain = distance[np.ix_(left, low)]
        more_rows, more_seen = self._matched("second", left, low, plain, _SECOND_LIMIT)
        newly_lost = np.setdiff1d(left, more_rows, assume_unique=True)

        free = high[rest(len(high), np.searchsorted(high, np.sort(seen)))]
        young = (~confirmed).nonzero()[0]
        cost = self._cost(distance, young, free, frame)
        young_rows, young_seen = self._matched("unconfirmed", young, free, cost, _UNCONFIRMED_LIMIT)
        dropped = np.setdiff1d(young, young_rows, assume_unique=True)
        free = np.setdiff1d(free, young_seen, assume_unique=True)

        was_tracked = state.tracked.copy()
        refound = rows[~was_tracked[rows]]
        self._correct(np.concatenate((rows, young_rows)), np.concatenate((seen, young_seen)), frame, with_features=True)
        self._correct(more_rows, more_seen, frame, with_features=False)
        threshold = settings.new_track_thresh
        threshold = settings.track_high_thresh + 0.1 if threshold is None else threshold
        born = free[scores[free] >= threshold]
        shown = np.full(len(state.ids), -1)
        for matched, what in ((rows, seen), (more_rows, more_seen), (young_rows, young_seen)):
            shown[matched] = what
        shown = self._sorted(was_tracked, refound, newly_lost, dropped, born, shown, frame)
        return self._given(self._without_duplicates(shown))

    def _give_up_late_ones(self, now: float) -> None:
        waited = now - self.state.last_time
        late = ~self.state.tracked & (waited > self.settings.track_buffer / _BUFFER_RATE + 1e-6)
        if late.any():
            self.state = take(self.state, ~late)

    def _move(self, frame: Frame) -> None:
        state = self.state
        if not len(state.ids):
            return
        moves = (state.confirmed | ~state.tracked) if self.faithful else np.ones(len(state.ids), bool)
        self._stop_growth(state)
        size = self._sizes(state.mean)
        elapsed = np.where(moves, frame.elapsed, 0.0)[:, None]
        kalman.predict(state.mean, state.cov, elapsed, *self._noise(size))
        if frame.warp is not None:
            state.cov = kalman.warp(state.mean, state.cov, frame.warp)

    def _matched(self, stage: str, rows: Ints, columns: Ints, cost: Floats, limit: float) -> tuple[Ints, Ints]:
        pairs = no_stage(len(rows), len(columns))
        pairs = assign(cost, limit) if pairs is None else pairs
        self._record(stage, self.state.ids[rows], columns, cost, limit, pairs)
        return rows[pairs[:, 0]], columns[pairs[:, 1]]

    def _cost(self, distance: Floats, rows: Ints, columns: Ints, frame: Frame) -> Floats:
        raw = distance[np.ix_(rows, columns)]
        if self.settings.mot20:
            return raw
        return 1.0 - (1.0 - raw) * frame.scores[columns]

    def _correct(self, rows: Ints, seen: Ints, frame: Frame, *, with_features: bool) -> None:
        if not len(rows):
            return
        state = self.state
        mean, cov = state.mean[rows], state.cov[rows]
        kalman.correct(mean, cov, self._measured(frame.boxes[seen]), self._measurement_noise(self._sizes(mean)))
        state.mean[rows], state.cov[rows] = mean, cov
        is_new = ~state.confirmed[rows]
        if is_new.any() and not self.faithful:
            state.ids[np.sort(rows[is_new])] = self._new_ids(int(is_new.sum()))
        state.tracked[rows] = state.confirmed[rows] = True
        state.last[rows], state.last_time[rows], state.scores[rows] = self.frame, frame.time, frame.scores[seen]
        state.votes, state.labels = self._voted(state.votes, state.labels, rows, frame.labels[seen], frame.scores[seen])
        if with_features:
            self._look(rows, seen, frame)

    def _look(self, rows: Ints, seen: Ints, frame: Frame) -> None:
        """ByteTrack has no eye for appearance."""

    def _sorted(
        self, was_tracked: Bools, refound: Ints, newly_lost: Ints, dropped: Ints, born: Ints, shown: Ints, frame: Frame
    ) -> Ints:
        """Puts the rows into the published order; which detection each one shows."""
        state = self.state
        state.tracked[newly_lost] = False
        stays = was_tracked & state.tracked
        stays[dropped] = False
        lost = ~was_tracked & ~state.tracked
        tracked = stays.nonzero()[0]
        lost_rows = np.concatenate((lost.nonzero()[0], newly_lost))
        if self.faithful:
            lost_rows = lost_rows[~state.given_up[lost_rows]]
            state.given_up |= ~was_tracked & (self.frame - state.last > self._buffer_frames)
        if len(born):
            young = self._born(born, frame)
            order = np.concatenate((tracked, len(state.ids) + np.arange(len(born)), refound, lost_rows))
            state, shown = joined(state, young), np.concatenate((shown, born))
        else:
            order = np.concatenate((tracked, refound, lost_rows))
        if len(order) != len(state.ids) or len(lost_rows) or len(refound):
            state, shown = take(state, order), shown[order]
        self.state = state
        return shown

    def _without_duplicates(self, shown: Ints) -> Ints:
        """A tracked and a lost one in the same place are one: the one that has lived longer stays."""
        state = self.state
        count = int(state.tracked.sum())
        if 0 < count < len(state.ids):
            boxes = self._boxes(state.mean)
            distance = 1.0 - overlaps(boxes[:count], boxes[count:], border=float(self.faithful))
            distance = self._apart(distance, state.labels[:count], state.labels[count:])
            tracked, lost = (distance < _DUPLICATE).nonzero()
            if len(tracked):
                age = state.last - state.first
                longer = age[tracked] > age[count + lost]
                kept = np.ones(len(state.ids), bool)
                kept[count + lost[longer]] = False
                kept[tracked[~longer]] = False
                self.state, shown = take(state, kept), shown[kept]
        return shown

    def _born(self, born: Ints, frame: Frame) -> ByteState:
        measured = self._measured(frame.boxes[born])
        mean = np.concatenate((measured, np.zeros_like(measured)), axis=1)
        position, velocity = self._first_noise(self._sizes(mean))
        cov = np.stack((position, np.zeros_like(position), velocity), axis=1)
        if self.state.cov.ndim == 5:
            cov = kalman.blocks(cov)
        count, at_once = len(born), self.frame == 1
        ids = self._new_ids(count) if self.faithful or at_once else np.zeros(count, np.int64)
        flag, labels = np.ones(count, bool), frame.labels[born]
        votes = np.zeros((count, self.state.votes.shape[1]))
        width = self.state.features.shape[1]
        state = ByteState(
            mean, cov, ids, flag, np.full(count, at_once), ~flag, np.full(count, self.frame),
            np.full(count, self.frame), np.full(count, frame.time), frame.scores[born], labels, votes,
            np.zeros((count, width)),
        )  # fmt: skip
        state.votes, state.labels = self._voted(votes, labels, np.arange(count), labels, frame.scores[born])
        if state.votes.shape[1] > self.state.votes.shape[1]:
            more = state.votes.shape[1] - self.state.votes.shape[1]
            self.state.votes = np.pad(self.state.votes, ((0, 0), (0, more)))
        return state

    def _given(self, shown: Ints) -> Tracks:
        tracked = self.state.tracked
        give = tracked if self.gives_unconfirmed and self.faithful else tracked & self.state.confirmed
        return self._tracks(give, shown)

    def _tracks(self, rows: Bools, shown: Ints) -> Tracks:
        state = self.state
        return Tracks(
            state.ids[rows], self._boxes(state.mean[rows]), state.scores[rows], state.labels[rows],
            state.confirmed[rows], shown[rows],
        )  # fmt: skip

    def lost(self) -> Tracks:
        rows = ~self.state.tracked
        return self._tracks(rows, np.full(len(self.state.ids), -1))

    @property
    def _buffer_frames(self) -> int:
        return int(self.frame_rate / _BUFFER_RATE * self.settings.track_buffer)

    # What is estimated: centre, aspect ratio, height.

    def _measured(self, boxes: Floats) -> Floats:
        size = boxes[:, 2:] - boxes[:, :2]
        return np.stack((*(boxes[:, :2] + size / 2).T, size[:, 0] / size[:, 1], size[:, 1]), axis=1)

    def _boxes(self, mean: Floats) -> Floats:
        size = np.stack((mean[:, 2] * mean[:, 3], mean[:, 3]), axis=1)
        corner = mean[:, :2] - size / 2
        return np.concatenate((corner, corner + size), axis=1)

    def _stop_growth(self, state: ByteState) -> None:
        state.mean[~state.tracked, 7] = 0.0

    def _sizes(self, mean: Floats) -> Floats:
        """What noises are proportional to."""
        return mean[:, [3, 3, 3, 3]]

    def _noise(self, size: Floats) -> tuple[Floats, Floats]:
        position, velocity = size * _POSITION, size * _VELOCITY
        position[:, 2], velocity[:, 2] = 1e-2, 1e-5
        return position**2, velocity**2

    def _first_noise(self, size: Floats) -> tuple[Floats, Floats]:
        position, velocity = 2 * size * _POSITION, 10 * size * _VELOCITY
        position[:, 2], velocity[:, 2] = 1e-2, 1e-5
        return position**2, velocity**2

    def _measurement_noise(self, size: Floats) -> Floats:
        noise = size * _POSITION
        noise[:, 2] = 1e-1
        return noise**2


class BotSort(ByteTrack):
    name = "botsort"
    gives_unconfirmed = True
    settings: BotSortSettings

    def _cost(self, distance: Floats, rows: Ints, columns: Ints, frame: Frame) -> Floats:
        cost = super()._cost(distance, rows, columns, frame)
        features = self.state.features
        if not self.settings.with_reid or frame.features is None or not features.shape[1] or not cost.size:
            return cost
        known = features[rows].any(1)
        apart = np.maximum(0.0, 1.0 - features[rows] @ frame.features[columns].T) / 2
        far = distance[np.ix_(rows, columns)] > self.settings.proximity_thresh
        apart[(apart > self.settings.appearance_thresh) | far | ~known[:, None]] = 1.0
        return np.minimum(cost, apart)

    def _look(self, rows: Ints, seen: Ints, frame: Frame) -> None:
        if frame.features is None or not self.settings.with_reid:
            return
        self._widen(frame.features.shape[1])
        old, new = self.state.features[rows], frame.features[seen]
        mixed = np.where(old.any(1)[:, None], _KEPT_FEATURE * old + (1 - _KEPT_FEATURE) * new, new)
        self.state.features[rows] = mixed / np.maximum(np.linalg.norm(mixed, axis=1, keepdims=True), 1e-12)

    def _widen(self, width: int) -> None:
        if self.state.features.shape[1] != width:
            self.state.features = np.zeros((len(self.state.ids), width))

    def _born(self, born: Ints, frame: Frame) -> ByteState:
        if frame.features is not None and self.settings.with_reid:
            self._widen(frame.features.shape[1])
        state = super()._born(born, frame)
        if frame.features is not None and self.settings.with_reid:
            state.features = frame.features[born].copy()
        return state

    # What is estimated: centre, width, height.

    def _measured(self, boxes: Floats) -> Floats:
        size = boxes[:, 2:] - boxes[:, :2]
        return np.concatenate((boxes[:, :2] + size / 2, size), axis=1)

    def _boxes(self, mean: Floats) -> Floats:
        corner = mean[:, :2] - mean[:, 2:4] / 2
        return np.concatenate((corner, corner + mean[:, 2:4]), axis=1)

    def _stop_growth(self, state: ByteState) -> None:
        state.mean[~state.tracked, 6:] = 0.0

    def _sizes(self, mean: Floats) -> Floats:
        return mean[:, [2, 3, 2, 3]]

    def _noise(self, size: Floats) -> tuple[Floats, Floats]:
        return (size * _POSITION) ** 2, (size * _VELOCITY) ** 2

    def _first_noise(self, size: Floats) -> tuple[Floats, Floats]:
        return (2 * size * _POSITION) ** 2, (10 * size * _VELOCITY) ** 2

    def _measurement_noise(self, size: Floats) -> Floats:
        return (size * _POSITION) ** 2
