"""One setting on one sequence: tracked from stored candidates and scored, without reading or writing anything."""

import numpy as np

from yolofast.track.formats.sequence import Floats, Sequence
from yolofast.track.sweep.figures import row_of
from yolofast.track.sweep.scene import Scene, results_of
from yolofast.track.sweep.space import CLASSES, OF_DETECTIONS, TRACKER, Trial
from yolofast.track.trackers.table import build_tracker


def evaluate(scene: Scene, trial: Trial, *, faithful: bool = False) -> Floats:
    """The row of figures."""
    return row_of(scene.score(track(scene, trial, faithful=faithful)))


def track(scene: Scene, trial: Trial, *, faithful: bool = False) -> Sequence:
    candidates = scene.candidates
    own = {name: value for name, value in trial.items() if name not in (TRACKER, CLASSES, *OF_DETECTIONS)}
    if CLASSES in trial:
        own[CLASSES] = trial[CLASSES]
    tracker = build_tracker(str(trial[TRACKER]), frame_rate=candidates.frame_rate, faithful=faithful, **own)  # type: ignore[arg-type]
    found = scene.detections(trial, faithful=faithful)
    box, score, label, features, starts = found.box, found.score, found.label, found.features, found.starts
    times, warps = candidates.times.tolist(), candidates.warps
    ids, boxes = [np.zeros(0, np.int64)], [np.zeros((0, 4))]
    for place in range(candidates.length):
        own_rows = slice(starts[place], starts[place + 1])
        tracks = tracker.update(
            box[own_rows], score[own_rows], label[own_rows],
            warp=None if warps is None else warps[place],
            features=None if features is None else features[own_rows],
            time=times[place],
        )  # fmt: skip
        ids.append(tracks.ids)
        boxes.append(tracks.boxes)
    frame = np.repeat(np.arange(candidates.length + 1), [len(one) for one in ids])
    return results_of(scene.name, candidates.length, frame, np.concatenate(ids), np.concatenate(boxes))
