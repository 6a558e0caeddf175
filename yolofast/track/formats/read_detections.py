"""Detections from any file that holds some: our own, MOT's `det.txt` with `seqinfo.ini` beside it, COCO results, JSON.

Trackers expect scores from 0 to 1. Detectors of benchmarks have others: they are refused, unless their range is said.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from yolofast.dataset.faults import Fault
from yolofast.errors import UserError, nearest, nearest_file
from yolofast.track.formats.coco_results import COCO_ENDING, read_coco_results
from yolofast.track.formats.detections import ENDING, StoredDetections, make_detections, read_own
from yolofast.track.formats.folders import SequenceFolder, find_sequences, read_sequences
from yolofast.track.formats.mot import read_times, text_of
from yolofast.track.formats.mot_text import parse_mot
from yolofast.track.formats.sequence import Sequence
from yolofast.track.formats.video_json import is_document, read_video_json

ScoreRange = tuple[float, float]
"""The lowest and the highest score of a detector."""
_MOST_NAMES = 100_000


def read_detections(
    path: str | Path, *, name: str | None = None, faults: list[Fault] | None = None, skip_bad: bool = False
) -> StoredDetections:
    """Of one video; `name` chooses one where a file or folder holds several."""
    found = read_all_detections(path, names=None if name is None else [name], faults=faults, skip_bad=skip_bad)
    if len(found) > 1:
        what = f"holds detections of {len(found)} videos: {', '.join(list(found)[:8])}"
        raise UserError(what, where=path, fix="name one of them")
    return next(iter(found.values()))


def read_all_detections(
    place: str | Path,
    *,
    names: Iterable[str] | None = None,
    images: Path | None = None,
    faults: list[Fault] | None = None,
    skip_bad: bool = False,
    scores: ScoreRange | None = None,
) -> dict[str, StoredDetections]:
    """By the name of the video, sorted: of a file, or of a folder of files or of MOT sequences.

    `images` is the COCO file that says which frames the images of COCO results are. `scores` is the range that becomes
    0 to 1.
    """
    if scores is not None and not (all(map(math.isfinite, scores)) and scores[0] < scores[1]):
        raise UserError(f"scores from {scores[0]:g} to {scores[1]:g}", fix="give the lowest and the highest: 0 100")
    place = Path(place)
    if not place.exists():
        fix = f"give {ENDING} of predict --save-detections, det.txt, or COCO results"
        raise UserError(f"does not exist{nearest_file(place)}", where=place, fix=fix)
    own = sorted(place.glob(f"*{ENDING}")) if place.is_dir() else [place] if place.suffix.lower() == ENDING else []
    if own:
        found = {path.stem: path for path in own}
        return {key: _scaled(read_own(found[key]), scores, found[key]) for key in _chosen(found, names, place)}
    if place.suffix.lower() == COCO_ENDING and is_document(place):
        known = read_video_json(place, "detections", skip_bad=skip_bad, faults=faults)
        return {key: _scaled(_of_sequence(known[key]), scores, place) for key in _chosen(known, names, place)}
    if place.suffix.lower() == COCO_ENDING:
        sources = read_coco_results(place, images=images, skip_bad=skip_bad, faults=faults)
        chosen = _chosen(sources, names, place)
        return {key: _scaled(make_detections(key, **sources[key]), scores, place) for key in chosen}
    there = find_sequences(place, "detections")
    chosen = _chosen(there, names, place)
    read = read_sequences(place, "detections", names=chosen, faults=faults, skip_bad=skip_bad)
    return {key: _scaled(_of_sequence(one, there[key]), scores, there[key].path) for key, one in read.items()}


def _of_sequence(one: Sequence, found: SequenceFolder | None = None) -> StoredDetections:
    """Names of classes that have none are their numbers."""
    last = max(one.classes, default=-1)
    names = [one.classes.get(label, f"class {label}") for label in range(last + 1)] if 0 <= last < _MOST_NAMES else []
    return make_detections(
        one.name, frame=one.frame, box=one.box, score=one.score, label=one.label, length=one.length,
        times=None if found is None else read_times(found.folder, one.length), frame_rate=one.frame_rate,
        width=one.width, height=one.height, names=names,
    )  # fmt: skip


def _scaled(stored: StoredDetections, scores: ScoreRange | None, path: Path) -> StoredDetections:
    """Scores from 0 to 1. What lies outside a range that is said becomes its end."""
    if scores is not None:
        low, high = scores
        return replace(stored, score=((stored.score - low) / (high - low)).clip(0, 1))
    if not len(stored) or stored.score.max() <= 1:
        return stored
    low, high = float(stored.score.min()), float(stored.score.max())
    what = f"scores of {stored.name} run from {low:g} to {high:g}, but trackers expect 0 to 1"
    usual = "0 100" if low >= 0 and 2 < high <= 100 else f"{math.floor(low)} {math.ceil(high)}"
    fix = f"add --score-range {usual}, which becomes 0 to 1, or write other scores"
    raise UserError(what, where=path, line=_first_above(path), fix=fix)


def _first_above(path: Path) -> int | None:
    """The line of the first score above 1, of a file of rows."""
    if path.suffix.lower() != ".txt":
        return None
    found = parse_mot(text_of(path), str(path), "detections")
    above = np.flatnonzero(found.rows[:, 6:7] > 1)
    return int(found.lines[above[0]]) if len(above) else None


def _chosen(found: Mapping[str, object], names: Iterable[str] | None, place: Path) -> list[str]:
    if names is None:
        return sorted(found)
    chosen = list(names)
    for name in chosen:
        if name not in found:
            fix = f"it has {', '.join(list(found)[:8])}"
            raise UserError(f"has no detections of {name}{nearest(name, found)}", where=place, fix=fix)
    return chosen
