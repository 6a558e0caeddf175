"""BoostTrack and BoostTrack++: scores of weak detections are raised where a track or an empty place speaks for them.

Written after the papers and facts about the code, not compared with its output: overlap, Mahalanobis distance and shape
are summed into one similarity, weighted by how sure detection and track are, and assigned once.

A warp of the camera moves the corners of a box before prediction.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from yolofast.track.trackers.matching import (
    MatchedPairs,
    assign,
    every_pair,
    every_place,
    overlap_between,
    places,
    touching,
)
from yolofast.track.trackers.motion import boost_filter, kalman
from yolofast.track.trackers.motion.boost_filter import boxes_of, measured
from yolofast.track.trackers.settings import BoostTrackSettings
from yolofast.track.trackers.streaks import StreakState, StreakTracker
from yolofast.track.trackers.tracker import TICKS, Defect
from yolofast.track.trackers.tracks import Bools, Floats, Ints, TrackerFrame, Tracks, normalised

_GATE = 13.2767
"""Of the squared Mahalanobis distance: the 99 % quantile for four coordinates."""
_YOUNG = 7
_CONFIDENCE = 0.9 ** np.arange(256)
"""By misses in a row, or by the frames that a young track has to live until it is none."""
_KNOWN_SHARE, _RAISED_SHARE = 0.65, 0.35
_SURE = np.maximum(0.95 - 0.0075 * np.arange(256), 0.8)
"""From this similarity on a detection is the track, by misses in a row."""
_DETECTION_BORDER, _TRACK_BORDER = 0.25, 0.5
"""How far unsure boxes are widened, as shares of their size."""
_FEATURE_WEIGHT, _FEATURE_LEAST, _FEATURE_OVERLAP = 3.0, 0.75, 0.15
_KEPT_FEATURE = 0.9
_ROUNDING = 1e-6
_TINY = np.array(np.finfo(np.float64).tiny)
_ONCE, _NEVER = np.array(1.0), np.array(np.inf)
"""The noise of a measurement, and of none."""


@dataclass
class BoostState(StreakState):
    filters: Floats
    """[5, 4, n], see `kalman.py`."""
    first: Ints
    """The frame of its birth."""
    features: Floats


class _Compared(NamedTuple):
    """Tracks and detections of a frame."""

    pairs: MatchedPairs
    boxes: Floats
    seen: Floats
    """Of the pairs, [4, pairs] each: where they begin, and sizes."""
    shape: Floats
    """How similar the shapes of a pair are."""
    power: Floats
    """exp(−squared Mahalanobis distance) of a pair, 0 beyond the gate."""
    near: tuple[Ints, Ints, Floats]
    """All tracks and detections within the gate, and that power."""
    sure: Floats
    """Confidence in each track."""

    def softmax(self, pairs: Ints | slice, others: Bools | None = None) -> Floats:
        """Power of these pairs as a share of that of all detections that are near the track (`others`: of these)."""
        rows, columns, power = self.near
        if others is not None:
            power = power * others[columns]
        total = np.maximum(np.bincount(rows, power, len(self.sure)), _TINY)
        return self.power[pairs] / total[self.pairs.rows[pairs]]


class BoostTrack(StreakTracker):
    name = "boosttrack"
    settings: BoostTrackSettings
    state: BoostState

    def _empty(self) -> BoostState:
        whole = np.zeros(0, np.int64)
        return BoostState(**self._nobody(), filters=np.zeros((5, 4, 0)), first=whole, features=np.zeros((0, 0)))

    @cached_property
    def _assigns_all(self) -> bool:
        return Defect.ASSIGN_THEN_DROP in self.defects

    def _step(self, frame: TrackerFrame) -> Tracks:
        state, settings = self.state, self.settings
        oldest = self._oldest if settings.max_age is None else settings.max_age
        self._drop_old(frame, oldest)
        self._move(frame)
        values = measured(frame.boxes.T)
        known = self._compared(frame, values)
        scores = self._raised(frame, known)
        used = scores >= settings.det_thresh
        rows, columns = self._matched(frame, known, scores, used)
        matches = np.empty(len(state.ids), np.int64)
        matches.fill(-1)
        matches[rows] = columns
        if len(rows):
            self._correct(matches, rows, columns, values, scores, frame)
        kept = self._drop_late(frame, oldest)
        if kept is not None:
            matches = matches[kept]
        used[columns] = False
        born = used.nonzero()[0]
        if len(born):
            state.join(self._born(born, values, scores, frame))
            matches = np.concatenate((matches, born))
        return self._tracks(self._shown(settings.min_hits), matches)

    @property
    def _oldest(self) -> float:
        """By default, in ticks: two seconds."""
        return max(2 * self.frame_rate, 30) if Defect.FRAMES_AS_TIME in self.defects else 2 * TICKS

    def _move(self, frame: TrackerFrame) -> None:
        filters = self.state.filters
        if frame.warp is not None:
            turn, shift = frame.warp[:, :2], frame.warp[:, 2]
            corners = boxes_of(filters[0]).reshape(-1, 2, 2) @ turn.T + shift
            filters[0] = measured(np.concatenate((corners.min(1), corners.max(1)), axis=1).T)
        boost_filter.predict(filters, frame.elapsed)

    def _compared(self, frame: TrackerFrame, values: Floats) -> _Compared:
        """Detections, of which the filter measures `values`, and tracks."""
        filters = self.state.filters
        boxes, distance = boxes_of(filters[0]), boost_filter.distances(filters, values)
        rows, columns = self._pairs(boxes, frame.boxes)
        one, two = boxes.T.take(rows, 1), frame.boxes.T.take(columns, 1)
        pairs = MatchedPairs(rows, columns, overlap_between(one, two, touch=not self._assigns_all))
        near_rows, near_columns = places(distance <= _GATE)
        near = near_rows, near_columns, np.exp(-distance[near_rows, near_columns])
        own = distance[rows, columns]
        power = np.exp(-own)
        power *= own <= _GATE
        return _Compared(pairs, one, two, self._shape_similarity(one[2:], two[2:]), power, near, self._confidence())

    def _pairs(self, boxes: Floats, seen: Floats) -> tuple[Ints, Ints]:
        """Faithful: all of them, for those that do not overlap take part in the assignment, too."""
        if self._assigns_all:
            return every_place(len(boxes), len(seen))
        return touching(boxes, seen)

    def _confidence(self) -> Floats:
        """In each track: low for young ones, and falling while one is not seen."""
        state = self.state
        power = self.frame - 1 - state.last
        young = (state.first > self.frame - _YOUNG).nonzero()[0]
        if len(young):
            power[young] = state.first[young] + (_YOUNG - self.frame)
        return np.asarray(_CONFIDENCE.take(power, mode="clip"), np.float64)

    def _raised(self, frame: TrackerFrame, known: _Compared) -> Floats:
        scores, settings = frame.scores.copy(), self.settings
        if not len(scores) or not len(known.sure):
            return scores
        if settings.use_dlo_boost:
            scores = self._near_tracks(scores, known)
        if settings.use_duo_boost:
            self._far_from_tracks(scores, frame.boxes, known)
        return scores

    def _near_tracks(self, scores: Floats, known: _Compared) -> Floats:
        settings, pairs, best = self.settings, known.pairs, np.zeros(len(scores))
        if not settings.use_rich_s:
            np.maximum.at(best, pairs.columns, pairs.overlap)
            return np.maximum(scores, settings.dlo_boost_coef * best)
        close = (pairs.overlap > 0).nonzero()[0] if self._assigns_all else slice(None)
        rows, columns = pairs.rows[close], pairs.columns[close]
        unsure = 1 - known.sure[rows]
        one = _widened(known.boxes[:, close], unsure * _TRACK_BORDER)
        two = _widened(known.seen[:, close], unsure * _DETECTION_BORDER)
        rich = overlap_between(one, two)
        rich += known.softmax(close)
        rich += known.shape[close]
        rich *= 1 / 3
        np.maximum.at(best, columns, rich)
        best *= np.sqrt(best)
        best *= _RAISED_SHARE
        best += scores * _KNOWN_SHARE
        raised = np.maximum(scores, best, out=best)
        weak = (raised < settings.det_thresh)[columns].nonzero()[0]
        if len(weak):
            misses = self.frame - 1 - self.state.last[rows[weak]]
            certain = rich[weak] > _SURE.take(misses, mode="clip")
            raised[columns[weak[certain]]] = settings.det_thresh
        return raised

    def _far_from_tracks(self, scores: Floats, boxes: Floats, known: _Compared) -> None:
        """In place: the best of each group that overlaps by more than 0.3."""
        threshold = self.settings.det_thresh
        alone = scores < threshold
        alone[known.near[1]] = False
        rows = alone.nonzero()[0]
        if not len(rows):
            return
        pairs, own = every_pair(boxes[rows], boxes[rows]), scores[rows]
        rival = (pairs.overlap > 0.3) & (own[pairs.columns] > own[pairs.rows])
        scores[np.delete(rows, pairs.rows[rival])] = threshold + 1e-4

    def _shape_similarity(self, size: Floats, other: Floats) -> Floats:
        """Of sizes [2, pairs]."""
        largest, off = np.maximum(size, other), size - other
        np.maximum(largest, _ROUNDING, out=largest)
        np.abs(off, out=off)
        off /= largest[[0, 0]] if Defect.HEIGHT_BY_WIDTH in self.defects and not self.settings.s_sim_corr else largest
        return np.asarray(np.exp(-(off[0] + off[1])))

    def _matched(self, frame: TrackerFrame, known: _Compared, scores: Floats, used: Bools) -> tuple[Ints, Ints]:
        """Faithful: everything is assigned, and what overlaps too little is dropped, which can cost good pairs."""
        settings, pairs, limit = self.settings, known.pairs, self.settings.iou_threshold
        took_part, close = used[pairs.columns], pairs.overlap >= limit
        alike = self._alike(frame, pairs)
        accepted = close & took_part
        if alike is not None:
            accepted |= took_part & (pairs.overlap >= _FEATURE_OVERLAP) & (alike >= _FEATURE_LEAST)
        if self.classes == "each":
            accepted &= self.state.labels[pairs.rows] == frame.labels[pairs.columns]
        some = (took_part if self._assigns_all else accepted).nonzero()[0]
        rows, columns, overlap = pairs.rows[some], pairs.columns[some], pairs.overlap[some]
        trust = scores[columns] * known.sure[rows]
        if self._assigns_all or alike is not None:
            trust *= close[some]
        value = settings.lambda_iou * overlap
        value += settings.lambda_shape * known.shape[some]
        value *= trust
        value += overlap
        value += settings.lambda_mhd * known.softmax(some, used)
        if alike is not None:
            value = np.maximum(value + _FEATURE_WEIGHT * alike[some], 0.0)
        if self.classes == "each":
            value *= self.state.labels[rows] == frame.labels[columns]
        found = assign(rows, columns, value)
        if self._assigns_all:
            found = found[accepted[some[found]]]
        if self.stages is not None:
            everybody = np.ones(len(self.state.ids), bool)
            self._record("all", everybody, used, pairs, 1 - pairs.overlap, 1 - limit, some[found])
        return rows[found], columns[found]

    def _alike(self, frame: TrackerFrame, pairs: MatchedPairs) -> Floats | None:
        """Cosines of appearance."""
        if not self.settings.with_reid or frame.features is None or not self.state.features.shape[1]:
            return None
        return np.asarray((self.state.features[pairs.rows] * frame.features[pairs.columns]).sum(1))

    def _correct(
        self, matches: Ints, rows: Ints, columns: Ints, values: Floats, scores: Floats, frame: TrackerFrame
    ) -> None:  # fmt: skip
        """`rows` were matched to `columns`."""
        state, noise = self.state, np.where(matches >= 0, _ONCE, _NEVER)
        kalman.correct_some(state.filters, values.take(matches, 1), noise)  # of those without a match any
        self._hit(rows, columns, self._missed_before(rows), scores, frame)
        if self.settings.with_reid and frame.features is not None and state.features.shape[1]:
            mixed = _KEPT_FEATURE * state.features[rows] + (1 - _KEPT_FEATURE) * frame.features[columns]
            state.features[rows] = normalised(mixed)

    def _born(self, born: Ints, values: Floats, scores: Floats, frame: TrackerFrame) -> BoostState:
        features = np.zeros((len(born), self.state.features.shape[1]))
        if self.settings.with_reid and frame.features is not None:
            features = frame.features[born]
            if self.state.features.shape[1] != features.shape[1]:
                self.state.features = np.zeros((len(self.state.ids), features.shape[1]))
        filters, columns = boost_filter.born(values.take(born, 1)), self._newborn(born, scores, frame)
        return BoostState(**columns, filters=filters, first=np.full(len(born), self.frame), features=features)

    def _expected(self) -> Floats:
        return boxes_of(self.state.filters[0])

    def lost(self) -> Tracks:
        return self._tracks(self._lost(self.settings.min_hits), np.full(len(self.state.ids), -1))

    def _tracks(self, rows: Ints, matches: Ints) -> Tracks:
        state, boxes = self.state, boxes_of(self.state.filters[0].take(rows, 1))
        return Tracks(state.ids[rows], boxes, state.scores[rows], state.labels[rows], rows >= 0, matches[rows])


def _widened(boxes: Floats, share: Floats) -> Floats:
    """In place: boxes that begin earlier and end later by this share of their size, of where they begin, and sizes."""
    low, size = boxes[:2], boxes[2:]
    border = size * share
    low -= border
    border += border
    size += border
    size += low
    return boxes
