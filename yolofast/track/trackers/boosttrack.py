"""BoostTrack and BoostTrack++: scores of weak detections are raised where a track or an empty place speaks for them.

Written after the papers and facts about the code, not compared with its output: overlap, Mahalanobis distance and shape
are summed into one similarity, weighted by how sure detection and track are, and assigned once.

The filter estimates centre, height and aspect ratio. A warp of the camera moves the corners of a box before prediction.
"""

from dataclasses import dataclass

import numpy as np

from yolofast.track.trackers import kalman
from yolofast.track.trackers.matching import Pairs, assign, every_pair, overlap_of, overlapping
from yolofast.track.trackers.tracker import Defect, Tracker
from yolofast.track.trackers.tracks import Floats, Frame, Ints, Tracks, joined, normalised, take

_POSITION_NOISE, _VELOCITY_NOISE = np.ones(4), np.full(4, 0.01)
_MEASUREMENT_NOISE = np.array([1.0, 1.0, 10.0, 0.01])
_FIRST_COV = np.array([[10.0] * 4, [0.0] * 4, [1e4] * 4])
_GATE = 13.2767
"""Of the squared Mahalanobis distance: the 99 % quantile for four coordinates."""
_CONFIDENCE, _YOUNG = 0.9, 7
_KNOWN_SHARE, _RAISED_SHARE, _SHARPNESS = 0.65, 0.35, 1.5
_SURE, _SURE_LEAST, _LESS_PER_MISS = 0.95, 0.8, 0.0075
_DETECTION_BORDER, _TRACK_BORDER = 0.25, 0.5
"""How far unsure boxes are widened, as shares of their size."""
_FEATURE_WEIGHT, _FEATURE_LEAST, _FEATURE_OVERLAP = 3.0, 0.75, 0.15
_KEPT_FEATURE = 0.9
_ROUNDING = 1e-6


@dataclass(frozen=True)
class BoostTrackSettings:
    det_thresh: float = 0.6
    max_age: int | None = None
    """By default two seconds, 30 frames at least."""
    min_hits: int = 3
    iou_threshold: float = 0.3
    lambda_iou: float = 0.5
    lambda_mhd: float = 0.25
    lambda_shape: float = 0.25
    use_dlo_boost: bool = True
    """Raise detections near tracks."""
    use_duo_boost: bool = True
    """Raise detections far from all tracks."""
    dlo_boost_coef: float = 0.65
    use_rich_s: bool = False
    """BoostTrack++: overlap, distance and shape together say whether a track is near."""
    s_sim_corr: bool = False
    """Divide differences of height by the height; the published default divides them by the width."""
    with_reid: bool = False
    cmc_method: str = "none"


@dataclass
class BoostState:
    mean: Floats
    cov: Floats
    ids: Ints
    age: Ints
    unseen: Ints
    unseen_time: Floats
    streak: Ints
    scores: Floats
    labels: Ints
    votes: Floats
    features: Floats


class BoostTrack(Tracker):
    name = "boosttrack"
    settings: BoostTrackSettings
    state: BoostState

    def _empty(self) -> BoostState:
        none, whole = np.zeros(0), np.zeros(0, np.int64)
        return BoostState(
            np.zeros((0, 8)), np.zeros((0, 3, 4)), whole, whole, whole, none, whole, none, whole, np.zeros((0, 1)),
            np.zeros((0, 0)),
        )  # fmt: skip

    def _step(self, frame: Frame) -> Tracks:
        self._move(frame)
        state, threshold = self.state, self.settings.det_thresh
        boxes, sure = boxes_of(state.mean), self._confidence()
        distance = self._distances(frame.boxes)
        scores = self._raised(frame, boxes, sure, distance)
        used = (scores >= threshold).nonzero()[0]
        rows, columns = self._matched(frame, boxes, sure, distance[:, used], scores, used)
        matches = np.full(len(state.ids), -1)
        matches[rows] = used[columns]
        self._correct(matches, frame, scores)
        born = np.setdiff1d(used, matches[rows], assume_unique=True)
        if len(born):
            self._widen_votes(frame.labels[born])
            self.state, matches = joined(self.state, self._born(born, frame, scores)), np.append(matches, born)
        return self._given(matches)

    def _move(self, frame: Frame) -> None:
        state = self.state
        if frame.warp is not None:
            turn, shift = frame.warp[:, :2], frame.warp[:, 2]
            corners = boxes_of(state.mean).reshape(-1, 2, 2) @ turn.T + shift
            low, high = corners.min(1), corners.max(1)
            state.mean[:, :4] = measured(np.concatenate((low, high), axis=1))
        kalman.predict(state.mean, state.cov, frame.elapsed, _POSITION_NOISE, _VELOCITY_NOISE)
        state.age += 1
        state.streak[state.unseen > 0] = 0
        state.unseen += 1
        state.unseen_time += frame.elapsed

    def _confidence(self) -> Floats:
        """Low for young tracks, and falling while one is not seen."""
        state = self.state
        power = np.where(state.age < _YOUNG, _YOUNG - state.age, state.unseen - 1)
        return np.asarray(_CONFIDENCE**power)

    def _distances(self, boxes: Floats) -> Floats:
        """Squared Mahalanobis distances of tracks and detections, as one product of matrices."""
        values, mean = measured(boxes), self.state.mean[:, :4]
        weight = 1 / (self.state.cov[:, 0] + _MEASUREMENT_NOISE)
        found = weight @ (values**2).T - 2 * (weight * mean) @ values.T + (weight * mean**2).sum(1)[:, None]
        return np.asarray(np.maximum(found, 0.0))

    def _raised(self, frame: Frame, boxes: Floats, sure: Floats, distance: Floats) -> Floats:
        scores, settings = frame.scores.copy(), self.settings
        if settings.use_dlo_boost and len(boxes) and len(scores):
            scores = self._near_tracks(scores, frame.boxes, boxes, sure, distance)
        if settings.use_duo_boost and len(boxes) and len(scores):
            scores = self._far_from_tracks(scores, frame.boxes, distance)
        return scores

    def _near_tracks(self, scores: Floats, detections: Floats, boxes: Floats, sure: Floats, distance: Floats) -> Floats:
        settings = self.settings
        pairs, best = overlapping(boxes, detections), np.zeros(len(scores))
        if not settings.use_rich_s:
            np.maximum.at(best, pairs.columns, pairs.overlap)
            return np.maximum(scores, settings.dlo_boost_coef * best)
        one, two = boxes[pairs.rows], detections[pairs.columns]
        unsure = 1 - sure[pairs.rows]
        soft = overlap_of(_widened(one, unsure * _TRACK_BORDER), _widened(two, unsure * _DETECTION_BORDER))
        shape = self._shape_similarity(one, two)
        rich = (_similarity(distance, pairs) + shape + soft) / 3
        np.maximum.at(best, pairs.columns, rich)
        raised = np.maximum(scores, _KNOWN_SHARE * scores + _RAISED_SHARE * best**_SHARPNESS)
        limit = np.maximum(_SURE - _LESS_PER_MISS * (self.state.unseen[pairs.rows] - 1), _SURE_LEAST)
        certain = pairs.columns[rich > limit]
        raised[certain] = np.maximum(raised[certain], settings.det_thresh)
        return raised

    def _far_from_tracks(self, scores: Floats, detections: Floats, distance: Floats) -> Floats:
        """The best of each group that overlaps by more than 0.3."""
        threshold = self.settings.det_thresh
        alone = ((scores < threshold) & (distance.min(0) > _GATE)).nonzero()[0]
        if not len(alone):
            return scores
        pairs = every_pair(detections[alone], detections[alone])
        rival = (pairs.overlap > 0.3) & (scores[alone][pairs.columns] > scores[alone][pairs.rows])
        beaten = np.zeros(len(alone), bool)
        beaten[pairs.rows[rival]] = True
        scores[alone[~beaten]] = threshold + 1e-4
        return scores

    def _shape_similarity(self, one: Floats, two: Floats) -> Floats:
        size, other = one[:, 2:] - one[:, :2], two[:, 2:] - two[:, :2]
        off, largest = np.abs(size - other), np.maximum(np.maximum(size, other), _ROUNDING)
        if Defect.HEIGHT_BY_WIDTH in self.defects and not self.settings.s_sim_corr:
            largest = largest[:, [0, 0]]
        return np.asarray(np.exp(-(off / largest).sum(1)))

    def _matched(
        self, frame: Frame, boxes: Floats, sure: Floats, distance: Floats, scores: Floats, used: Ints
    ) -> tuple[Ints, Ints]:
        """Faithful: everything is assigned, and what overlaps too little is dropped, which can cost good pairs."""
        settings, limit = self.settings, self.settings.iou_threshold
        assigns_all = Defect.ASSIGN_THEN_DROP in self.defects
        pairs: Pairs = (every_pair if assigns_all else overlapping)(boxes, frame.boxes[used])
        seen = used[pairs.columns]
        trust = np.where(pairs.overlap >= limit, scores[seen] * sure[pairs.rows], 0.0)
        value = pairs.overlap + settings.lambda_iou * trust * pairs.overlap
        value += settings.lambda_mhd * _similarity(distance, pairs)
        value += settings.lambda_shape * trust * self._shape_similarity(boxes[pairs.rows], frame.boxes[seen])
        accepted = pairs.overlap >= limit
        alike = self._alike(frame, pairs.rows, seen)
        if alike is not None:
            value += _FEATURE_WEIGHT * alike
            accepted |= (pairs.overlap >= _FEATURE_OVERLAP) & (alike >= _FEATURE_LEAST)
        if self.classes == "each":
            same = self.state.labels[pairs.rows] == frame.labels[seen]
            value, accepted = np.where(same, value, 0.0), accepted & same
        some = np.arange(len(value)) if assigns_all else accepted.nonzero()[0]
        found = some[assign(pairs.rows[some], pairs.columns[some], np.maximum(value[some], 0.0))]
        found = found[accepted[found]]
        took_part = np.zeros(len(frame.scores), bool)
        took_part[used] = True
        shown = Pairs(pairs.rows, seen, pairs.overlap)
        self._record("all", np.ones(len(boxes), bool), took_part, shown, 1 - pairs.overlap, 1 - limit, found)
        return pairs.rows[found], pairs.columns[found]

    def _alike(self, frame: Frame, rows: Ints, seen: Ints) -> Floats | None:
        """Cosines of appearance."""
        if not self.settings.with_reid or frame.features is None or not self.state.features.shape[1]:
            return None
        return np.asarray((self.state.features[rows] * frame.features[seen]).sum(1))

    def _correct(self, matches: Ints, frame: Frame, scores: Floats) -> None:
        state, rows = self.state, (matches >= 0).nonzero()[0]
        if not len(rows):
            return
        seen = matches[rows]
        mean, cov = state.mean[rows], state.cov[rows]
        kalman.correct(mean, cov, measured(frame.boxes[seen]), _MEASUREMENT_NOISE)
        state.mean[rows], state.cov[rows] = mean, cov
        state.unseen[rows], state.unseen_time[rows], state.scores[rows] = 0, 0.0, scores[seen]
        state.streak[rows] += 1
        self._vote(rows, frame.labels[seen], frame.scores[seen])
        if self.settings.with_reid and frame.features is not None and state.features.shape[1]:
            mixed = _KEPT_FEATURE * state.features[rows] + (1 - _KEPT_FEATURE) * frame.features[seen]
            state.features[rows] = normalised(mixed)

    def _born(self, born: Ints, frame: Frame, scores: Floats) -> BoostState:
        count, none = len(born), np.zeros(len(born), np.int64)
        features = np.zeros((count, 0))
        if self.settings.with_reid and frame.features is not None:
            features = frame.features[born]
            if self.state.features.shape[1] != features.shape[1]:
                self.state.features = np.zeros((len(self.state.ids), features.shape[1]))
        mean = np.concatenate((measured(frame.boxes[born]), np.zeros((count, 4))), axis=1)
        return BoostState(
            mean, np.tile(_FIRST_COV, (count, 1, 1)), self._new_ids(count), none, none.copy(), np.zeros(count),
            none.copy(), scores[born], frame.labels[born], self._first_votes(born, frame), features,
        )  # fmt: skip

    def _given(self, matches: Ints) -> Tracks:
        state, settings = self.state, self.settings
        fresh = (state.streak >= settings.min_hits) | (self.frame <= settings.min_hits)
        tracks = self._tracks(((state.unseen < 1) & fresh).nonzero()[0], matches)
        oldest = max(2 * self.frame_rate, 30) if settings.max_age is None else settings.max_age
        waited = state.unseen if Defect.FRAMES_AS_TIME in self.defects else state.unseen_time - _ROUNDING
        if (waited > oldest).any():
            self.state = take(state, waited <= oldest)
        return tracks

    def _tracks(self, rows: Ints, matches: Ints) -> Tracks:
        state, yes = self.state, np.ones(len(rows), bool)
        return Tracks(
            state.ids[rows], boxes_of(state.mean[rows]), state.scores[rows], state.labels[rows], yes, matches[rows]
        )

    def lost(self) -> Tracks:
        rows = (self.state.unseen > 0).nonzero()[0]
        return self._tracks(rows, np.full(len(self.state.ids), -1))


def measured(boxes: Floats) -> Floats:
    """Centre, height, aspect ratio."""
    size = boxes[:, 2:] - boxes[:, :2]
    height = np.maximum(size[:, 1], _ROUNDING)
    return np.stack((*(boxes[:, :2] + size / 2).T, height, size[:, 0] / height), axis=1)


def boxes_of(mean: Floats) -> Floats:
    height = np.maximum(mean[:, 2], 0.0)
    half = np.stack((height * np.maximum(mean[:, 3], 0.0), height), axis=1) / 2
    return np.concatenate((mean[:, :2] - half, mean[:, :2] + half), axis=1)


def _widened(boxes: Floats, share: Floats) -> Floats:
    border = (boxes[:, 2:] - boxes[:, :2]) * share[:, None]
    return np.concatenate((boxes[:, :2] - border, boxes[:, 2:] + border), axis=1)


def _similarity(distance: Floats, pairs: Pairs) -> Floats:
    """Of pairs, by distance: a softmax over the detections of each track, 0 beyond the gate."""
    rows, columns = (distance <= _GATE).nonzero()
    power = np.exp(-distance[rows, columns])
    total = np.maximum(np.bincount(rows, power, minlength=len(distance)), np.finfo(float).tiny)
    own = distance[pairs.rows, pairs.columns]
    return np.where(own <= _GATE, np.exp(-np.minimum(own, _GATE)), 0.0) / total[pairs.rows]
