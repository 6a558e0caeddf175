"""A sequence made ready to be tracked and scored many times: stored candidates and the truth.

What does not depend on the settings is computed once: which candidates of a frame overlap and how much, the truth that
counts, its identities. What depends on the detector's settings alone is kept for the next tracker that asks for it.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from yolofast.track.formats.detections import StoredDetections
from yolofast.track.formats.sequence import UNKNOWN, Bools, Floats, Ints, Sequence
from yolofast.track.score.pairs import overlapping
from yolofast.track.score.prepare import Prepared, prepare
from yolofast.track.sweep.space import CONF, NMS, TRACKER, Trial, settings_of
from yolofast.track.trackers.matching import overlap_of

_KEPT = 8
"""Choices of the detector's settings that are remembered."""
_EVERY_BOX_COUNTS = ("none", "mot15")


@dataclass(frozen=True, eq=False)
class Scene:
    """One sequence; `truth` and `candidates` have the same length."""

    name: str
    truth: Sequence
    candidates: StoredDetections
    benchmark: str = "none"

    @cached_property
    def _truth_that_counts(self) -> tuple[Sequence, Ints, Ints]:
        """Boxes, each identity once, and of each box its place among those."""
        truth = self.truth.kept(self.truth.mark)
        ids, places = np.unique(truth.id, return_inverse=True)
        return truth, ids, places

    @cached_property
    def _rivals(self) -> tuple[Ints, Ints, Floats]:
        """Candidates of one frame and class that overlap: the better one, the other one, how much."""
        found = self.candidates
        order = np.lexsort((-found.score, found.label, found.frame))
        group = np.stack((found.frame[order], found.label[order]))
        ends = np.append(np.flatnonzero((np.diff(group) != 0).any(0)) + 1, len(order))
        last = ends[np.searchsorted(ends, np.arange(len(order)), side="right")] if len(order) else ends[:0]
        behind = last - np.arange(len(order)) - 1
        first = np.repeat(np.arange(len(order)), behind)
        second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(behind) - behind, behind)
        better, worse = order[first], order[second]
        overlap = overlap_of(found.box[better], found.box[worse])
        touch = overlap > 0
        return better[touch], worse[touch], overlap[touch]

    def suppressed(self, threshold: float | None) -> Bools:
        """[n] whether a better candidate of its class, which is kept itself, overlaps it by more than `threshold`.

        In rounds over all frames at once: what has no better rival left is kept, its rivals go.
        """
        gone = np.zeros(len(self.candidates), bool)
        if threshold is None:
            return gone
        better, worse, overlap = self._rivals
        close = overlap > threshold
        better, worse = better[close], worse[close]
        open_ = np.ones(len(gone), bool)
        while len(worse):
            doubtful = np.zeros(len(gone), bool)
            doubtful[worse] = True
            gone[worse[open_[better] & ~doubtful[better]]] = True
            open_ = ~gone
            going_on = doubtful[better] & ~gone[better] & ~gone[worse]
            if not going_on.any():
                break
            better, worse = better[going_on], worse[going_on]
        return gone

    def detections(self, trial: Trial, *, faithful: bool = False) -> "Detections":
        """What the tracker of a trial gets to see."""
        return _detections(self, trial.get(NMS), trial.get(CONF), _unused_below(trial, faithful))

    def score(self, results: Sequence) -> Prepared:
        """`prepare`, without repeating what is known of the truth."""
        if self.benchmark not in _EVERY_BOX_COUNTS or results.length != self.truth.length:
            return prepare(self.truth, results, self.benchmark)
        truth, truth_ids, truth_id = self._truth_that_counts
        result_ids, result_id = np.unique(results.id, return_inverse=True)
        return Prepared(truth, results, overlapping(truth, results), truth_id, result_id, truth_ids, result_ids)

    def digest(self) -> str:
        """Changes if anything does that a result depends on."""
        found, true = self.candidates, self.truth
        content = hashlib.sha256(f"{self.name} {self.benchmark} {true.length} {found.frame_rate}".encode())
        arrays = (found.frame, found.box, found.score, found.label, found.times, found.features, found.warps,
                  true.frame, true.id, true.box, true.label, true.mark)  # fmt: skip
        for array in arrays:
            content.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        return content.hexdigest()


@dataclass(frozen=True, eq=False)
class Detections:
    """Columns, and where the frames begin."""

    box: Floats
    score: Floats
    label: Ints
    features: Floats | None
    starts: list[int]
    """[length + 1]"""


def make_scene(truth: Sequence, candidates: StoredDetections, benchmark: str = "none") -> Scene:
    """Frames that only one of the two has are added to the other."""
    length = max(truth.length, candidates.length)
    more = length - candidates.length
    if more:
        start = candidates.times[-1] if len(candidates.times) else -1 / candidates.frame_rate
        times = np.append(candidates.times, start + np.arange(1, more + 1) / candidates.frame_rate)
        warps = candidates.warps
        if warps is not None:
            warps = np.concatenate((warps, np.tile(np.eye(2, 3), (more, 1, 1))))
        candidates = replace(candidates, length=length, times=times, warps=warps)
    label = np.maximum(candidates.label, 0) if len(candidates) else candidates.label
    candidates = replace(candidates, label=label)  # a tracker counts classes from 0
    return Scene(truth.name, replace(truth, length=length, files=()), candidates, benchmark)


@lru_cache(maxsize=64 * _KEPT)
def _detections(scene: Scene, nms: float | None, conf: float | None, unused: float | None) -> Detections:
    found = scene.candidates
    kept = ~scene.suppressed(nms)
    if conf is not None:
        kept &= found.score >= conf
    if unused is not None:
        kept &= found.score > unused
    some = found.kept(kept)
    features = None if some.features is None else np.asarray(some.features, np.float64)
    return Detections(some.box, some.score, some.label, features, some.starts().tolist())


def _unused_below(trial: Trial, faithful: bool) -> float | None:
    """Scores up to this one are of no use to the trial's tracker; None if all may be."""
    every = {**settings_of(str(trial[TRACKER])), **trial}
    if trial[TRACKER] in ("bytetrack", "botsort"):
        high = every["track_thresh" if trial[TRACKER] == "bytetrack" else "track_high_thresh"]
        return float(every["track_low_thresh"]) if every["track_low_thresh"] < high else None
    if trial[TRACKER] == "ocsort" and not every["use_byte"] and not faithful:
        return float(np.nextafter(every["det_thresh"], 0))
    return None


def empty_results(name: str, length: int) -> Sequence:
    return results_of(name, length, np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 4)))


def results_of(name: str, length: int, frame: Ints, ids: Ints, box: Floats) -> Sequence:
    """Of a tracker, whose frames are in order."""
    count = len(frame)
    ones = np.ones(count)
    return Sequence(
        name=name, length=length, frame=frame, id=ids, box=box, score=ones, label=np.full(count, UNKNOWN),
        mark=np.ones(count, bool), visibility=ones,
    )  # fmt: skip
