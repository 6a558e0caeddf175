"""What of nuScenes is wanted, by name: classes, cameras, and the scenes of splits."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolofast.dataset.data_yaml import SPLITS
from yolofast.errors import UserError, nearest, nearest_file, shorten
from yolofast.files.yaml_file import read_yaml
from yolofast.resources import ROOT

CAMERAS = ("CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_BACK_RIGHT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_FRONT_LEFT")
_PEDESTRIAN = "human.pedestrian."
CLASSES: Mapping[str, tuple[str, ...]] = {
    "car": ("vehicle.car",),
    "truck": ("vehicle.truck",),
    "bus": ("vehicle.bus.rigid", "vehicle.bus.bendy"),
    "trailer": ("vehicle.trailer",),
    "construction_vehicle": ("vehicle.construction",),
    "pedestrian": tuple(_PEDESTRIAN + one for one in ("adult", "child", "construction_worker", "police_officer")),
    "motorcycle": ("vehicle.motorcycle",),
    "bicycle": ("vehicle.bicycle",),
    "traffic_cone": ("movable_object.trafficcone",),
    "barrier": ("movable_object.barrier",),
}
"""The ten classes of nuScenes' detection task, and the categories of the tables that each stands for.

Strollers, wheelchairs and personal mobility are no pedestrians there, nor emergency vehicles cars.
"""
_SETS: Mapping[str, tuple[str, ...]] = {
    "tracking7": ("car", "truck", "bus", "trailer", "pedestrian", "motorcycle", "bicycle"),
    "detection10": tuple(CLASSES),
}
_EVERY = "all"
_USUAL_SPLITS = {
    "v1.0-trainval": ("train", "val"), "v1.0-mini": ("mini_train", "mini_val"), "v1.0-test": ("test",),
}  # fmt: skip
_VALIDATED = 5
"""Of scenes that no official split knows, one in so many is validated on."""


@dataclass(frozen=True)
class ClassChoice:
    names: tuple[str, ...]
    """In the order of their numbers, from 0."""
    of_category: Mapping[str, int]
    """Number of the class by the category's name."""


def choose_classes(given: Sequence[str], categories: Iterable[str]) -> ClassChoice:
    """`tracking7`, `detection10`, names of those, or `all` categories of the tables as they are called."""
    if tuple(given) == (_EVERY,):
        names = tuple(sorted(set(categories)))
        return ClassChoice(names, {name: number for number, name in enumerate(names)})
    chosen = _SETS[given[0]] if len(given) == 1 and given[0] in _SETS else tuple(given)
    for name in chosen:
        sets = (*_SETS, _EVERY)
        _require_known("--classes", name, (*CLASSES, *sets), f"{', '.join(sets)}, or some of {' '.join(CLASSES)}")
        if name not in CLASSES:
            raise UserError(f"--classes has {name} beside other words", fix=f"give {name} alone, or names of classes")
    _refuse_twice("--classes", chosen)
    found = {category: number for number, name in enumerate(chosen) for category in CLASSES[name]}
    return ClassChoice(chosen, found)


def choose_cameras(given: Sequence[str], channels: Collection[str]) -> tuple[str, ...]:
    """Those of the tables, in nuScenes' order, or the given ones."""
    there = sorted(channels, key=lambda one: (CAMERAS.index(one) if one in CAMERAS else len(CAMERAS), one))
    for name in given:
        _require_known("--cameras", name, there, " ".join(there) or "a version with cameras")
    _refuse_twice("--cameras", given)
    return tuple(given) or tuple(there)


def official_splits() -> dict[str, tuple[str, ...]]:
    """Names of scenes."""
    found = json.loads((ROOT / "nuscenes" / "splits.json").read_bytes())
    return {name: tuple(scenes) for name, scenes in found.items()}


def choose_splits(
    given: Sequence[str], file: Path | None, version: str, scenes: Collection[str]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Scenes of each split that are there, and remarks; raises `UserError` for a split that has none of them."""
    if not scenes:
        raise UserError(f"{version} has no scene that can be used", fix="download its tables again")
    known = official_splits() if file is None else _read_splits(file, scenes)
    usual = _USUAL_SPLITS.get(version, ()) if file is None else tuple(known)
    if not given and file is None and not _with_scenes(usual, known, scenes):
        others = (_with_scenes(names, known, scenes) for names in _USUAL_SPLITS.values())
        usual = next(filter(None, others), ())
        if not usual:
            return _own_splits(scenes)
    chosen: dict[str, tuple[str, ...]] = {}
    remarks = []
    for name in given or usual:
        _require_known("--split", name, known, " ".join(known))
        found = tuple(scene for scene in known[name] if scene in scenes)
        if not found:
            holds = _with_scenes(known, known, scenes)
            own = "name your scenes with --split-file"
            fix = f"give --split {' or '.join(holds)}, or {own}" if holds else own
            raise UserError(f"{version} has no scene of the split {name}", fix=fix)
        if len(found) < len(known[name]):
            remarks.append(f"{name}: {len(found):,} of its {len(known[name]):,} scenes are in {version}")
        chosen[name] = found
    _refuse_twice("--split", tuple(given))
    _refuse_shared(chosen)
    return chosen, remarks


def data_key(split: str) -> str:
    """The split of a data yaml that `mini_train`, `train_detect` or `val-night` is."""
    words = [word for word in split.replace("-", "_").split("_") if word in SPLITS]
    if len(words) != 1 or not re.fullmatch(r"[\w-]+", split):
        what = f"the split {shorten(split)} is none of {', '.join(SPLITS)}"
        raise UserError(what, fix="name it after one of them, as in train, mini_val or test-night")
    return words[0]


def _with_scenes(
    names: Iterable[str], known: Mapping[str, Collection[str]], scenes: Collection[str]
) -> tuple[str, ...]:
    """Those that have a scene which is there."""
    return tuple(name for name in names if set(scenes) & set(known[name]))


def _own_splits(scenes: Collection[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    ordered = sorted(scenes)
    count = min(max(1, len(ordered) // _VALIDATED), len(ordered) - 1)
    first = len(ordered) - count
    chosen = {"train": tuple(ordered[:first]), "val": tuple(ordered[first:])}
    what = f"no official split knows these scenes: the first {first:,} are train, the last {count:,} val"
    remark = f"{what}; --split-file chooses others"
    return {name: found for name, found in chosen.items() if found}, [remark]


def _read_splits(path: Path, scenes: Collection[str]) -> dict[str, tuple[str, ...]]:
    """`train: [scene-0001, …]` of a YAML or JSON file."""
    if not path.is_file():
        raise UserError(f"does not exist{nearest_file(path)}", where=path, fix="give a file of `train: [scene-0001]`")
    file = read_yaml(path)  # JSON is YAML
    found: dict[str, tuple[str, ...]] = {}
    for name, listed in file.values.items():
        if not isinstance(listed, list) or not listed or not all(isinstance(one, str) for one in listed):
            what = f"{shorten(name)} must be a list of scenes, not {shorten(listed)}"
            raise UserError(what, where=path, line=file.line(name), fix=f"{shorten(name)}: [scene-0001, scene-0002]")
        for place, scene in enumerate(listed):
            if scene not in scenes:
                what, line = f"{name} names {scene}{nearest(scene, scenes)}", file.line(name, place)
                raise UserError(f"{what}, which the tables do not have", where=path, line=line, fix="correct the name")
        found[str(name)] = tuple(dict.fromkeys(listed))
    if not found:
        raise UserError("names no splits", where=path, fix="train: [scene-0001]")
    return found


def _refuse_shared(chosen: Mapping[str, Sequence[str]]) -> None:
    """A scene in train and val would be known by heart."""
    split_of: dict[str, str] = {}
    for split, scenes in chosen.items():
        for scene in scenes:
            if (other := split_of.setdefault(scene, split)) != split:
                raise UserError(f"{scene} is in {other} and in {split}", fix="give splits that share no scene")


def _refuse_twice(flag: str, given: Sequence[str]) -> None:
    for name in given:
        if given.count(name) > 1:
            raise UserError(f"{flag} has {name} twice", fix="give it once")


def _require_known(flag: str, name: str, known: Collection[Any], choices: str) -> None:
    if name not in known:
        raise UserError(f"{flag} has {shorten(name)}{nearest(name, known)}", fix=f"give {choices}")
