"""Settings on one sequence: tracked from stored candidates and scored, without reading or writing anything."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from yolofast.track.formats.sequence import Floats, Ints
from yolofast.track.formats.sequence import Sequence as TrackSequence
from yolofast.track.sweep.figures import row_of
from yolofast.track.sweep.scene import Scene, results_of
from yolofast.track.sweep.space import CLASSES, OF_DETECTIONS, TRACKER, Trial, key_of
from yolofast.track.sweep.together import KINDS, MAY_DIFFER
from yolofast.track.trackers.table import build_tracker, kind_of

MOST_TOGETHER = 64
"""Settings that one state holds: with more, memory and not NumPy's calls takes the time."""


def evaluate(scene: Scene, trials: Sequence[Trial], *, faithful: bool = False) -> Floats:
    """[trials, WIDTH]; the settings must fit together (`together`)."""
    return np.stack([row_of(scene.score(one)) for one in track(scene, trials, faithful=faithful)])


def together(trials: Sequence[Trial], most: int, *, faithful: bool = False) -> list[list[Trial]]:
    """Parts of the settings that one call can track; those that must be tracked alone are parts of one."""
    parts: dict[str, list[list[Trial]]] = {}
    for trial in trials:
        own = parts.setdefault(_kind(trial, faithful), [[]])
        if len(own[-1]) >= (most if _fits(trial, faithful) else 1):
            own.append([])
        own[-1].append(trial)
    return [part for own in parts.values() for part in own if part]


def _fits(trial: Trial, faithful: bool) -> bool:
    """Published arithmetic, classes apart and appearance are left to the tracker itself."""
    return trial[TRACKER] in KINDS and not faithful and trial.get(CLASSES) != "each" and not trial.get("with_reid")


def _kind(trial: Trial, faithful: bool) -> str:
    """Equal for settings that fit together."""
    if not _fits(trial, faithful):
        return key_of(trial)
    return key_of({name: value for name, value in trial.items() if name not in (*MAY_DIFFER, *OF_DETECTIONS, CLASSES)})


def track(scene: Scene, trials: Sequence[Trial], *, faithful: bool = False) -> list[TrackSequence]:
    """The results of each."""
    if len(trials) == 1:
        return [_alone(scene, trials[0], faithful)]
    candidates = scene.candidates
    kind = kind_of(trials[0][TRACKER])
    every = [kind.settings(**_own(trial)) for trial in trials]
    tracker = KINDS[str(trials[0][TRACKER])](every, candidates.used_rate)
    found = [scene.detections(trial) for trial in trials]
    which = np.repeat(np.arange(len(trials)), [len(one.score) for one in found])
    frame = np.concatenate([np.repeat(np.arange(candidates.length), np.diff(one.starts)) for one in found])
    order = (frame * len(trials) + which).argsort(kind="stable")
    box, score = (np.concatenate(column)[order] for column in ([o.box for o in found], [o.score for o in found]))
    starts = np.searchsorted(frame[order], np.arange(candidates.length + 1)).tolist()
    frames, ids, boxes, labels = _tracked(scene, tracker, box, score, which[order], None, starts)
    results = []
    for number in range(len(trials)):
        own = labels == number
        results.append(results_of(scene.name, candidates.length, frames[own], ids[own], boxes[own]))
    return results


def _alone(scene: Scene, trial: Trial, faithful: bool) -> TrackSequence:
    classes: dict[str, Any] = {CLASSES: trial[CLASSES]} if CLASSES in trial else {}
    rate = scene.candidates.used_rate
    tracker = build_tracker(str(trial[TRACKER]), frame_rate=rate, faithful=faithful, **classes, **_own(trial))
    found = scene.detections(trial, faithful=faithful)
    features = found.features if trial.get("with_reid") else None
    frame, ids, boxes, _ = _tracked(scene, tracker, found.box, found.score, found.label, features, found.starts)
    return results_of(scene.name, scene.candidates.length, frame, ids, boxes)


def _tracked(
    scene: Scene, tracker: Any, box: Floats, score: Floats, label: Ints, features: Floats | None, starts: Sequence[int]
) -> tuple[Ints, Ints, Floats, Ints]:
    """Frames, ids, boxes and labels of all tracks."""
    candidates = scene.candidates
    times, warps = candidates.times.tolist(), None if tracker.cmc_method == "none" else candidates.warps
    width, height = candidates.width or scene.truth.width, candidates.height or scene.truth.height
    size = None if width is None or height is None else (width, height)
    found: list[tuple[Ints, Floats, Ints]] = [(np.zeros(0, np.int64), np.zeros((0, 4)), np.zeros(0, np.int64))]
    looked_at = candidates.looked_at()
    for place in (looked_at - 1).tolist():
        own = slice(starts[place], starts[place + 1])
        tracks = tracker.update(
            box[own], score[own], label[own],
            warp=None if warps is None else warps[place],
            features=None if features is None else features[own],
            time=times[place], size=size,
        )  # fmt: skip
        found.append((tracks.ids, tracks.boxes, tracks.labels))
    ids, boxes, labels = (np.concatenate(column) for column in zip(*found, strict=True))
    return np.repeat(np.append(0, looked_at), [len(one[0]) for one in found]), ids, boxes, labels


def _own(trial: Trial) -> dict[str, Any]:
    """The settings of the tracker itself."""
    return {name: value for name, value in trial.items() if name not in (TRACKER, CLASSES, *OF_DETECTIONS)}
