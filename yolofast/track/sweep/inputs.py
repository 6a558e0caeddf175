"""What a search is fed with: truth and stored detections paired by name, from folders or from `sequences.yaml`."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from yolofast.dataset.faults import Fault
from yolofast.errors import UserError, nearest
from yolofast.track.formats.detections import StoredDetections
from yolofast.track.formats.faults import told
from yolofast.track.formats.folders import find_sequences, read_sequences
from yolofast.track.formats.mot import read_times
from yolofast.track.formats.read_detections import ScoreRange, read_all_detections
from yolofast.track.formats.sequence import Floats, Sequence
from yolofast.track.formats.sequences_yaml import read_sequences_yaml
from yolofast.track.score.prepare import check_benchmark
from yolofast.track.selection import of_classes
from yolofast.track.sweep.scene import Scene, make_scene
from yolofast.track.sweep.space import CAMERA, NO_CAMERA, TRACKER, Trial, settings_of
from yolofast.track.trackers.camera_motion import ESTIMATED


@dataclass(frozen=True)
class SweepInputs:
    """Truth by name, and where else each sequence has files; None where it has none."""

    truth: Mapping[str, Sequence]
    sources: Mapping[str, Path | None]
    """Images or a video."""
    detections: Mapping[str, Path | None]
    """`det.txt`"""
    times: Mapping[str, Floats | None]
    """Seconds of each frame, where they are stated."""
    remarks: tuple[str, ...]
    others: frozenset[str] = frozenset()
    """Sequences that have truth, but were not chosen."""

    def digest(self) -> str:
        """Of the truth: changes if a box does."""
        content = hashlib.sha256()
        for name, one in self.truth.items():
            content.update(f"{name} {one.length}".encode())
            for array in (one.frame, one.id, one.box, one.label, one.mark):
                content.update(np.ascontiguousarray(array).tobytes())
        return content.hexdigest()[:16]


def read_truth(
    data: str | None, truth: str | None, names: Iterable[str] | None = None, *, skip_bad: bool = False
) -> SweepInputs:
    """Of `sequences.yaml`, or of MOTChallenge folders."""
    faults: list[Fault] = []
    wanted = None if names is None else tuple(names)
    if data is not None:
        listed = {one.name: one for one in read_sequences_yaml(data).sequences}
        chosen = _chosen(listed, wanted, data)
        every = set(listed)
        found = {name: listed[name].read_truth(faults, skip_bad=skip_bad) for name in chosen}
        sources = {name: listed[name].source for name in chosen}
        stored = {name: listed[name].detections for name in chosen}
        times = {name: listed[name].times() for name in chosen}
    else:
        assert truth is not None
        found = read_sequences(truth, "truth", names=wanted, faults=faults, skip_bad=skip_bad)
        places = find_sequences(truth, "truth")
        every = set(places)
        folders = {name: places[name].path.parent.parent for name in found}
        sources = {name: _there(folders[name] / places[name].info.images) for name in found}
        stored = {name: _there(folders[name] / "det" / "det.txt") for name in found}
        times = {name: read_times(places[name].folder, one.length) for name, one in found.items()}
    for name, one in found.items():
        if not one.mark.any():
            raise UserError(f"{name} has no truth that counts", where=data or truth, fix="leave it out of --sequences")
    return SweepInputs(found, sources, stored, times, tuple(told(faults)), frozenset(every - found.keys()))


def scenes_of(
    given: SweepInputs,
    stored: Mapping[str, StoredDetections],
    benchmark: str = "none",
    classes: Iterable[int | str] | None = None,
) -> tuple[Scene, ...]:
    """`classes`: only detections of these, by number or name."""
    check_benchmark(benchmark)
    return tuple(
        make_scene(truth, _timed(of_classes(stored[name], classes), given.times[name]), benchmark)
        for name, truth in given.truth.items()
    )


def read_stored(
    given: SweepInputs, place: str | None, *, skip_bad: bool = False, scores: ScoreRange | None = None
) -> tuple[dict[str, StoredDetections], list[str]]:
    """Detections of every sequence of the truth, and remarks; without a place those that lie beside the truth."""
    faults: list[Fault] = []
    if place is None:
        found = {}
        for name, path in given.detections.items():
            if path is None:
                what = f"{name} has no det/det.txt"
                raise UserError(what, fix="give --detections, made by predict --save-detections, or --weights")
            read = read_all_detections(path, faults=faults, skip_bad=skip_bad, scores=scores)
            found[name] = next(iter(read.values()))
        return found, list(told(faults))
    there = read_all_detections(place, faults=faults, skip_bad=skip_bad, scores=scores)
    remarks = list(told(faults))
    if len(there) == 1 and len(given.truth) == 1:  # whatever they are called
        return dict(zip(given.truth, there.values(), strict=True)), remarks
    for name in given.truth:
        if name not in there:
            what = f"has no detections of sequence {name}{nearest(name, there)}"
            raise UserError(what, where=place, fix="add them, or choose others with --sequences")
    others = sorted(there.keys() - given.truth.keys() - given.others)
    if others:
        remarks.append(f"not searched, because there is no truth of them: {', '.join(others)}")
    return {name: there[name] for name in given.truth}, remarks


def without_camera(trials: Iterable[Trial], stored: Iterable[StoredDetections]) -> list[Trial]:
    """Where no detections hold the camera's motion, none is searched with it; `track` has to be told the same."""
    if any(one.warps is not None for one in stored):
        return list(trials)
    return [
        {**trial, CAMERA: NO_CAMERA}
        if CAMERA not in trial and settings_of(str(trial[TRACKER])).get(CAMERA) in ESTIMATED
        else trial
        for trial in trials
    ]


def _timed(stored: StoredDetections, times: Floats | None) -> StoredDetections:
    return stored if times is None or len(times) != stored.length else replace(stored, times=times)


def _chosen(listed: Mapping[str, object], names: tuple[str, ...] | None, where: str) -> tuple[str, ...]:
    for name in names or ():
        if name not in listed:
            fix = f"it has {', '.join(listed)}"
            raise UserError(f"has no sequence {name}{nearest(name, listed)}", where=where, fix=fix)
    return tuple(listed) if names is None else names


def _there(path: Path) -> Path | None:
    return path if path.exists() else None
