"""ByteTrack and BoT-SORT: confident detections first, then the others for tracks that are about to be lost.

Both take the same steps per frame (docs/tracking.md). They differ in what the filter estimates (aspect ratio and
height, or width and height), in camera motion and appearance, and in what they give out. A frame is one function over
arrays: predict all, find pairs that overlap, associate three times, correct all that were matched.

Rows of the state are the tracked ones in the published order, then the lost ones.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from yolofast.track.trackers import kalman
from yolofast.track.trackers.matching import Pairs, assign, every_pair, overlapping
from yolofast.track.trackers.tracker import Defect, Tracker
from yolofast.track.trackers.tracks import Bools, Floats, Frame, Ints, Tracks, joined, normalised, take

_SECOND_LIMIT, _UNCONFIRMED_LIMIT, _DUPLICATE = 0.5, 0.7, 0.85
_KEPT_FEATURE = 0.9
_BUFFER_RATE = 30.0
"""`track_buffer` counts frames at this rate, whatever that of the video."""
_ROUNDING = 1e-6


@dataclass(frozen=True)
class ByteTrackSettings:
    track_thresh: float = 0.6
    track_low_thresh: float = 0.1
    new_track_thresh: float | None = None
    """By default `track_thresh` + 0.1."""
    match_thresh: float = 0.9
    """The greatest cost of a match, below 1: higher is more permissive."""
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


@dataclass(frozen=True)
class Noise:
    """Variances: `share` of the squared size, plus `fixed`, per coordinate."""

    share: Floats
    fixed: Floats

    def of(self, squared_size: Floats) -> Floats:
        return squared_size * self.share + self.fixed


def _noise(deviation: float, fixed: float | None = None) -> Noise:
    """A standard deviation as a share of the size; `fixed` is that of the aspect ratio."""
    share, constant = np.full(4, deviation**2), np.zeros(4)
    if fixed is not None:
        share[2], constant[2] = 0.0, fixed**2
    return Noise(share, constant)


class ByteTrack(Tracker):
    """It estimates centre, aspect ratio and height; all noises are proportional to the height."""

    name = "bytetrack"
    gives_unconfirmed: ClassVar[bool] = False
    process: ClassVar[tuple[Noise, Noise]] = _noise(1 / 20, 1e-2), _noise(1 / 160, 1e-5)
    at_birth: ClassVar[tuple[Noise, Noise]] = _noise(2 / 20, 1e-2), _noise(10 / 160, 1e-5)
    measurement: ClassVar[Noise] = _noise(1 / 20, 1e-1)
    size_velocities: ClassVar[slice] = slice(7, 8)
    """They are forgotten when a track is lost."""
    settings: ByteTrackSettings | BotSortSettings
    state: ByteState

    @property
    def _border(self) -> float:
        return float(Defect.PIXEL_BORDERS in self.defects)

    def _measured(self, boxes: Floats) -> Floats:
        size = boxes[:, 2:] - boxes[:, :2]
        found = np.concatenate((boxes[:, :2] + size / 2, size), axis=1)
        found[:, 2] /= found[:, 3]
        return found

    def _boxes(self, mean: Floats) -> Floats:
        size = mean[:, 2:4].copy()
        size[:, 0] *= size[:, 1]
        corner = mean[:, :2] - size / 2
        return np.concatenate((corner, corner + size), axis=1)

    def _squared_size(self, mean: Floats) -> Floats:
        return mean[:, 3:4] ** 2

    def _empty(self) -> ByteState:
        none, flags, whole = np.zeros(0), np.zeros(0, bool), np.zeros(0, np.int64)
        return ByteState(
            np.zeros((0, 8)), np.zeros((0, 3, 4)), whole, flags, flags, flags, whole, whole, none, none, whole,
            np.zeros((0, 1)), np.zeros((0, 0)),
        )  # fmt: skip

    def _step(self, frame: Frame) -> Tracks:
        settings, scores = self.settings, frame.scores
        self._move(frame)
        state = self.state
        was_tracked, known = state.tracked.copy(), state.confirmed | ~state.tracked
        high = scores >= settings.track_high_thresh
        if Defect.STRICT_THRESHOLD in self.defects:
            high = scores > settings.track_high_thresh
        low = (scores > settings.track_low_thresh) & (scores < settings.track_high_thresh)
        pairs = self._pairs(frame)
        matches = np.full(len(state.ids), -1)
        cost = self._cost(pairs, frame)
        self._match("first", matches, pairs, cost, settings.match_thresh, known, high)
        self._match(
            "second", matches, pairs, 1 - pairs.overlap, _SECOND_LIMIT, known & was_tracked & (matches < 0), low
        )
        free = high.copy()
        free[matches[matches >= 0]] = False
        self._match("unconfirmed", matches, pairs, cost, _UNCONFIRMED_LIMIT, ~known, free)
        free[matches[matches >= 0]] = False
        born_from = settings.track_high_thresh + 0.1 if settings.new_track_thresh is None else settings.new_track_thresh
        born = (free & (scores >= born_from)).nonzero()[0]
        self._correct(matches, high, frame)
        matches = self._sort(was_tracked, known, matches, born, frame)
        boxes = self._boxes(self.state.mean)
        kept = self._without_duplicates(boxes)
        if kept is not None:
            self.state, matches, boxes = take(self.state, kept), matches[kept], boxes[kept]
        given = self.state.tracked
        if not (Defect.ONE_FRAME_TRACKS in self.defects and self.gives_unconfirmed):
            given = given & self.state.confirmed
        return self._tracks(given, boxes, matches)

    def _move(self, frame: Frame) -> None:
        """What is too old goes, the others are predicted. Faithful: unconfirmed ones stay where they are."""
        state = self.state
        if Defect.LATE_REMOVAL not in self.defects:
            limit = self.settings.track_buffer / _BUFFER_RATE + _ROUNDING
            kept = state.tracked | (frame.time - state.last_time <= limit)
            if not kept.all():
                state = self.state = take(state, kept)
        state.mean[~state.tracked, self.size_velocities] = 0.0
        elapsed: Floats | float = frame.elapsed
        if Defect.WAITING_NEWCOMERS in self.defects:
            elapsed = np.where(state.confirmed | ~state.tracked, frame.elapsed, 0.0)[:, None]
        size = self._squared_size(state.mean)
        kalman.predict(state.mean, state.cov, elapsed, self.process[0].of(size), self.process[1].of(size))
        if frame.warp is not None:
            state.cov = kalman.warp(state.mean, state.cov, frame.warp)

    def _pairs(self, frame: Frame) -> Pairs:
        pairs = self._close(self._boxes(self.state.mean), frame.boxes)
        if self.classes == "each":
            return pairs.where(self.state.labels[pairs.rows] == frame.labels[pairs.columns])
        return pairs

    def _close(self, tracks: Floats, boxes: Floats) -> Pairs:
        return overlapping(tracks, boxes, border=self._border)

    def _cost(self, pairs: Pairs, frame: Frame) -> Floats:
        if self.settings.mot20:
            return 1 - pairs.overlap
        return 1 - pairs.overlap * frame.scores[pairs.columns]

    def _match(
        self, stage: str, matches: Ints, pairs: Pairs, cost: Floats, limit: float, rows: Bools, columns: Bools
    ) -> None:
        """Writes the detection of each matched track into `matches`."""
        if self.stages is None and not (rows.any() and columns.any()):
            return
        possible = (rows[pairs.rows] & columns[pairs.columns] & (cost <= limit)).nonzero()[0]
        found = possible[assign(pairs.rows[possible], pairs.columns[possible], limit - cost[possible])]
        matches[pairs.rows[found]] = pairs.columns[found]
        self._record(stage, rows, columns, pairs, cost, limit, found)

    def _correct(self, matches: Ints, high: Bools, frame: Frame) -> None:
        rows = (matches >= 0).nonzero()[0]
        if not len(rows):
            return
        state, seen = self.state, matches[rows]
        mean, cov = state.mean[rows], state.cov[rows]
        kalman.correct(mean, cov, self._measured(frame.boxes[seen]), self.measurement.of(self._squared_size(mean)))
        state.mean[rows], state.cov[rows] = mean, cov
        if Defect.IDS_AT_BIRTH not in self.defects:
            nameless = rows[state.ids[rows] == 0]
            if len(nameless):
                state.ids[nameless] = self._new_ids(len(nameless))
        state.tracked[rows] = state.confirmed[rows] = True
        state.last[rows], state.last_time[rows], state.scores[rows] = self.frame, frame.time, frame.scores[seen]
        self._vote(rows, frame.labels[seen], frame.scores[seen])
        if frame.features is not None:
            confident = high[seen]
            self._look(rows[confident], frame.features[seen[confident]])

    def _look(self, rows: Ints, features: Floats) -> None:
        """ByteTrack has no eye for appearance."""

    def _sort(self, was_tracked: Bools, known: Bools, matches: Ints, born: Ints, frame: Frame) -> Ints:
        """Puts the rows into the published order; what each is matched to, in that order.

        Tracked ones stay in their order, then come new ones, found ones, lost ones, and those that have just been lost.
        """
        state = self.state
        missed = matches < 0
        stay, lost = was_tracked & ~missed, ~was_tracked & missed
        newly_lost = was_tracked & known & missed
        state.tracked[newly_lost] = False
        if Defect.LATE_REMOVAL in self.defects:
            lost &= ~state.given_up
            newly_lost &= ~state.given_up
            limit = int(self.frame_rate / _BUFFER_RATE * self.settings.track_buffer)
            state.given_up |= ~was_tracked & (self.frame - state.last > limit)
        if not len(born) and (stay | lost).all():
            return matches
        names = np.arange(len(state.ids))
        parts = [names[stay], len(names) + np.arange(len(born)), names[~was_tracked & ~missed], names[lost]]
        order = np.concatenate((*parts, names[newly_lost]))
        if len(born):
            state, matches = joined(self._wide_enough(born, frame), self._born(born, frame)), np.append(matches, born)
        self.state = take(state, order)
        return matches[order]

    def _without_duplicates(self, boxes: Floats) -> Bools | None:
        """A tracked and a lost one in the same place are one: the one that has lived longer stays. None: there are no
        such pairs."""
        state = self.state
        count = int(state.tracked.sum())
        if count in (0, len(state.ids)):
            return None
        pairs = self._tracked_and_lost(boxes, count)
        same = pairs.overlap > _DUPLICATE
        if not same.any():
            return None
        tracked, lost = pairs.rows[same], count + pairs.columns[same]
        age = state.last - state.first
        longer = age[tracked] > age[lost]
        kept = np.ones(len(state.ids), bool)
        kept[lost[longer]] = False
        kept[tracked[~longer]] = False
        return kept

    def _tracked_and_lost(self, boxes: Floats, count: int) -> Pairs:
        """Those that overlap, of the same class where classes are apart; `count` are tracked, the others lost."""
        pairs, labels = overlapping(boxes[:count], boxes[count:], border=self._border), self.state.labels
        return pairs.where(labels[pairs.rows] == labels[count + pairs.columns]) if self.classes == "each" else pairs

    def _wide_enough(self, born: Ints, frame: Frame) -> ByteState:
        self._widen_votes(frame.labels[born])
        return self.state

    def _born(self, born: Ints, frame: Frame) -> ByteState:
        measured = self._measured(frame.boxes[born])
        size = self._squared_size(measured)
        position, velocity = (noise.of(size) for noise in self.at_birth)
        cov = np.stack((position, np.zeros_like(position), velocity), axis=1)
        if self.state.cov.ndim == 5:
            cov = kalman.blocks(cov)
        count, at_once, now = len(born), self.frame == 1, np.full(len(born), self.frame)
        at_birth = at_once or Defect.IDS_AT_BIRTH in self.defects
        ids = self._new_ids(count) if at_birth else np.zeros(count, np.int64)
        flag = np.ones(count, bool)
        return ByteState(
            np.concatenate((measured, np.zeros_like(measured)), axis=1), cov, ids, flag, flag & at_once, ~flag, now,
            now, np.full(count, frame.time), frame.scores[born], frame.labels[born], self._first_votes(born, frame),
            np.zeros((count, self.state.features.shape[1])),
        )  # fmt: skip

    def _tracks(self, rows: Bools, boxes: Floats, matches: Ints) -> Tracks:
        state = self.state
        return Tracks(
            state.ids[rows], boxes[rows], state.scores[rows], state.labels[rows], state.confirmed[rows], matches[rows]
        )

    def lost(self) -> Tracks:
        return self._tracks(~self.state.tracked, self._boxes(self.state.mean), np.full(len(self.state.ids), -1))


class BotSort(ByteTrack):
    """It estimates centre, width and height; noises are proportional to the side along their axis."""

    name = "botsort"
    gives_unconfirmed = True
    process = _noise(1 / 20), _noise(1 / 160)
    at_birth = _noise(2 / 20), _noise(10 / 160)
    measurement = _noise(1 / 20)
    size_velocities = slice(6, 8)
    settings: BotSortSettings

    def _measured(self, boxes: Floats) -> Floats:
        size = boxes[:, 2:] - boxes[:, :2]
        return np.concatenate((boxes[:, :2] + size / 2, size), axis=1)

    def _boxes(self, mean: Floats) -> Floats:
        corner = mean[:, :2] - mean[:, 2:4] / 2
        return np.concatenate((corner, corner + mean[:, 2:4]), axis=1)

    def _squared_size(self, mean: Floats) -> Floats:
        squared = mean[:, 2:4] ** 2
        return np.concatenate((squared, squared), axis=1)

    def _close(self, tracks: Floats, boxes: Floats) -> Pairs:
        if self.settings.with_reid and self.settings.proximity_thresh >= 1:  # appearance alone may decide
            return every_pair(tracks, boxes, border=self._border)
        return super()._close(tracks, boxes)

    def _cost(self, pairs: Pairs, frame: Frame) -> Floats:
        cost, own = super()._cost(pairs, frame), self.state.features
        if not self.settings.with_reid or frame.features is None or not own.shape[1]:
            return cost
        alike = (own[pairs.rows] * frame.features[pairs.columns]).sum(1)
        apart = np.maximum(0.0, 1 - alike) / 2
        apart[(apart > self.settings.appearance_thresh) | (1 - pairs.overlap > self.settings.proximity_thresh)] = 1.0
        apart[~_are_known(own)[pairs.rows]] = 1.0
        return np.asarray(np.minimum(cost, apart))

    def _look(self, rows: Ints, features: Floats) -> None:
        if not self.settings.with_reid:
            return
        self._widen_features(features.shape[1])
        old = self.state.features[rows]
        mixed = _KEPT_FEATURE * old + (1 - _KEPT_FEATURE) * features
        self.state.features[rows] = normalised(np.where(_are_known(old)[:, None], mixed, features))

    def _widen_features(self, width: int) -> None:
        if self.state.features.shape[1] != width:
            self.state.features = np.zeros((len(self.state.ids), width))

    def _wide_enough(self, born: Ints, frame: Frame) -> ByteState:
        if frame.features is not None and self.settings.with_reid:
            self._widen_features(frame.features.shape[1])
        return super()._wide_enough(born, frame)

    def _born(self, born: Ints, frame: Frame) -> ByteState:
        state = super()._born(born, frame)
        if frame.features is not None and self.settings.with_reid:
            state.features = frame.features[born]
        return state


def _are_known(features: Floats) -> Bools:
    """Tracks that have been looked at."""
    return np.asarray((features != 0).any(1))
