"""A sequence made ready to be tracked and scored many times: stored candidates and the truth.

What does not depend on the settings is computed once: which candidates of a frame overlap (`track/selection.py`), the
truth that counts, its identities. What depends on the detector's settings alone is kept for the next tracker that asks
for it.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from yolofast.track.formats.detections import StoredDetections
from yolofast.track.formats.sequence import UNKNOWN, Floats, Ints, Sequence
from yolofast.track.score.pairs import overlapping
from yolofast.track.score.prepare import Prepared, prepare
from yolofast.track.selection import StoredCandidates, tracks_across
from yolofast.track.sweep.space import CLASSES, CONF, NMS, TRACKER, Trial, low_scores, settings_of

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
    def chosen_from(self) -> StoredCandidates:
        return StoredCandidates(self.candidates)

    def detections(self, trial: Trial, *, faithful: bool = False) -> "SceneDetections":
        """What the tracker of a trial gets to see."""
        across = tracks_across(trial.get(CLASSES))
        return _detections(self, trial.get(NMS), trial.get(CONF), across, _unused_below(trial, faithful))

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
        about = f"{self.name} {self.benchmark} {true.length} {found.frame_rate}"
        if found.made is not None or found.every > 1:
            about += f" {found.made} {found.every}"
        content = hashlib.sha256(about.encode())
        marks = [one for one in (found.seen, found.across, found.within) if one is not None]
        arrays = (*marks, found.frame, found.box, found.score, found.label, found.times, found.features, found.warps,
                  true.frame, true.id, true.box, true.label, true.mark)  # fmt: skip
        for array in arrays:
            content.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        return content.hexdigest()


@dataclass(frozen=True, eq=False)
class SceneDetections:
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
def _detections(scene: Scene, nms: Any, conf: Any, across: bool, unused: float | None) -> SceneDetections:
    found = scene.candidates
    kept = scene.chosen_from.kept(conf=conf, iou=nms, across=across)
    if unused is not None:
        kept &= found.score > unused
    some = found.kept(kept)
    features = None if some.features is None else np.asarray(some.features, np.float64)
    return SceneDetections(some.box, some.score, some.label, features, some.starts().tolist())


def _unused_below(trial: Trial, faithful: bool) -> float | None:
    """Scores up to this one are of no use to the trial's tracker; None if all may be."""
    every = {**settings_of(str(trial[TRACKER])), **trial}
    if (band := low_scores(trial)) is not None:
        low, high = band
        return low if low < high else None
    if trial[TRACKER] == "ocsort" and not every["use_byte"] and not faithful:
        return float(np.nextafter(every["det_thresh"], 0))
    return None


def results_of(name: str, length: int, frame: Ints, ids: Ints, box: Floats) -> Sequence:
    """Of a tracker, whose frames are in order."""
    count = len(frame)
    ones = np.ones(count)
    return Sequence(
        name=name, length=length, frame=frame, id=ids, box=box, score=ones, label=np.full(count, UNKNOWN),
        mark=np.ones(count, bool), visibility=ones,
    )  # fmt: skip
