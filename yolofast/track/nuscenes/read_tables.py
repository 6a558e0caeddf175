"""The tables of a nuScenes version, read once, entry by entry: what is wanted of them stays, as columns of numbers.

    sensor → calibrated_sensor → sample_data ← ego_pose        images of the chosen cameras and scenes
    scene → sample → sample_annotation ← instance ← category   boxes in space, twice a second

Entries refer to one another by tokens; here they are rows. An entry that cannot be used is a fault with its number, and
so is one that refers to what is not there. Rows of other sensors and of other scenes are dropped as they pass.
"""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from yolofast.dataset.faults import Fault, FaultKind
from yolofast.errors import UserError, nearest_file, shorten
from yolofast.files.json_list import read_json_list
from yolofast.track.formats.sequence import Bools, Ints
from yolofast.track.nuscenes import entries
from yolofast.track.nuscenes.choices import choose_cameras, choose_classes, choose_splits
from yolofast.track.nuscenes.columns import GrowingColumns
from yolofast.track.nuscenes.entries import BadRowError, Row
from yolofast.track.nuscenes.geometry import Mounts, Poses
from yolofast.track.nuscenes.tables import UNWANTED, Annotations, Images, Tables, Texts, Wanted
from yolofast.words import counted

Tell = Callable[[str, int, int], None]
"""What is being done, how far, of how much."""
_IN_ORDER = (
    "sensor", "calibrated_sensor", "category", "instance", "scene", "sample", "sample_data", "ego_pose",
    "sample_annotation",
)  # fmt: skip
"""Each after those that it refers to."""
_LISTED = 1000
"""Faults of a table that are listed; millions of the same would only fill memory."""
_CORRECT = "correct the entry, or download the tables again"


def read_tables(wanted: Wanted, faults: list[Fault], tell: Tell) -> Tables:
    """Entries with faults are left out; the caller decides whether that is good enough. Raises `UserError`."""
    return _Reader(wanted, faults, tell).read()


class _Reader:
    def __init__(self, wanted: Wanted, faults: list[Fault], tell: Tell) -> None:
        self._wanted, self._faults, self._tell = wanted, faults, tell
        self._sizes = _table_sizes(wanted)
        self._rows: dict[str, dict[str, int]] = {table: {} for table in _IN_ORDER}
        """Row of each token, by table."""

    def read(self) -> Tables:
        channels: list[str] = []
        self._read("sensor", lambda row: self._keep("sensor", row, _channel(row), channels))
        cameras = choose_cameras(self._wanted.cameras, {one for one in channels if one})
        camera, mount = self._calibrations(channels, cameras)
        categories: list[str] = []
        self._read("category", lambda row: self._keep("category", row, entries.text(row, "name"), categories))
        classes = choose_classes(self._wanted.classes, categories)
        label, instances = self._instances([classes.of_category.get(one, UNWANTED) for one in categories])
        splits, remarks = self._scenes()
        sample_scene, sample_time = self._samples()
        images = self._images(camera, sample_scene)
        pose = self._poses()
        return Tables(
            cameras=cameras, classes=classes.names, splits=splits, remarks=tuple(remarks),
            sample_scene=sample_scene, sample_time=sample_time, label=label, instance_token=tuple(instances),
            mount=mount, pose=pose, images=self._usable(images, np.isfinite(pose.place[:, 0])),
            annotations=self._annotations(),
        )  # fmt: skip

    def _read(self, table: str, take: Callable[[Row], None]) -> None:
        path, count = self._path(table), 0
        before = sum(self._sizes[one] for one in _IN_ORDER[: _IN_ORDER.index(table)])
        total = sum(self._sizes.values())
        for number, row in read_json_list(path, lambda done: self._tell(f"reading {table}", before + done, total)):
            try:
                take(row)
            except BadRowError as error:
                count += 1
                if count <= _LISTED:
                    self._note(error.kind, table, f"entry {number:,}: {error}")
        if count > _LISTED:
            self._note(FaultKind.BAD_ANNOTATION, table, f"and {count - _LISTED:,} more entries")

    def _path(self, table: str) -> Path:
        return self._wanted.folder / f"{table}.json"

    def _note(self, kind: FaultKind, table: str, what: str, fix: str = _CORRECT) -> None:
        self._faults.append(Fault(kind=kind, where=str(self._path(table)), what=what, fix=fix))

    def _keep(self, table: str, row: Row, value: str, values: list[str]) -> None:
        """Gives the entry the next row, and keeps a text of it there."""
        self._give(table, row, len(values))
        values.append(value)

    def _give(self, table: str, row: Row, number: int) -> None:
        token = entries.text(row, "token")
        if token in self._rows[table]:
            raise BadRowError(FaultKind.TOKEN, f"the token {shorten(token)} stands twice")
        self._rows[table][token] = number

    def _row(self, table: str, row: Row, key: str) -> int:
        """Of the entry of another table that this one refers to."""
        token = row.get(key)
        found = self._rows[table].get(token) if isinstance(token, str) else None
        if found is None:
            raise BadRowError(FaultKind.TOKEN, f"{key} {shorten(token)} is not in {table}.json")
        return found

    def _calibrations(self, channels: list[str], cameras: tuple[str, ...]) -> tuple[Ints, Mounts]:
        """Camera of each, and how it is mounted."""
        camera, places, rotations, inner = (
            GrowingColumns(1, whole=True),
            GrowingColumns(3),
            GrowingColumns(4),
            GrowingColumns(9),
        )

        number_of = {channel: number for number, channel in enumerate(cameras)}

        def calibration(row: Row) -> None:
            channel = channels[self._row("sensor", row, "sensor_token")]
            if channel not in number_of:
                self._give("calibrated_sensor", row, UNWANTED)
                return
            found = entries.numbers(row, "translation", 3), entries.quaternion(row), entries.intrinsic(row)
            self._give("calibrated_sensor", row, len(camera))
            camera.add(number_of[channel])
            for columns, values in zip((places, rotations, inner), found, strict=True):
                columns.add(*values)

        self._read("calibrated_sensor", calibration)
        return camera.array(), Mounts(
            place=places.array(), rotation=rotations.array(), intrinsic=inner.array().reshape(-1, 3, 3)
        )

    def _instances(self, label_of: list[int]) -> tuple[Ints, list[str]]:
        labels = GrowingColumns(1, whole=True)
        tokens: list[str] = []

        def instance(row: Row) -> None:
            label = label_of[self._row("category", row, "category_token")]
            self._keep("instance", row, entries.text(row, "token"), tokens)
            labels.add(label)

        self._read("instance", instance)
        return labels.array(), tokens

    def _scenes(self) -> tuple[dict[str, tuple[str, ...]], list[str]]:
        names: list[str] = []
        known: set[str] = set()

        def scene(row: Row) -> None:
            name = entries.text(row, "name")
            if name in known:
                raise BadRowError(FaultKind.LISTED_TWICE, f"another scene is called {shorten(name)} too")
            self._keep("scene", row, name, names)
            known.add(name)

        self._read("scene", scene)
        wanted = self._wanted
        splits, remarks = choose_splits(wanted.splits, wanted.split_file, wanted.version, set(names))
        place = {name: number for number, name in enumerate(name for scenes in splits.values() for name in scenes)}
        rows = self._rows["scene"]
        self._rows["scene"] = {token: place.get(names[row], UNWANTED) for token, row in rows.items()}
        return splits, remarks

    def _samples(self) -> tuple[Ints, Ints]:
        found = GrowingColumns(2, whole=True)

        def sample(row: Row) -> None:
            scene, time = self._row("scene", row, "scene_token"), entries.whole(row, "timestamp")
            self._give("sample", row, UNWANTED if scene == UNWANTED else len(found))
            if scene != UNWANTED:
                found.add(scene, time)

        self._read("sample", sample)
        scene, time = found.array().T
        return scene, time

    def _images(self, camera: Ints, sample_scene: Ints) -> Images:
        """Sorted; their poses get rows in the order in which they come."""
        found, files, tokens = GrowingColumns(7, whole=True), [], []
        poses = self._rows["ego_pose"]

        def image(row: Row) -> None:
            calibration = self._row("calibrated_sensor", row, "calibrated_sensor_token")
            if calibration == UNWANTED:
                return
            sample, is_key = self._row("sample", row, "sample_token"), row.get("is_key_frame") is True
            if sample == UNWANTED or not (is_key or self._wanted.sweeps):
                return
            size = entries.whole(row, "width", 1), entries.whole(row, "height", 1)
            time, pose = entries.whole(row, "timestamp"), entries.text(row, "ego_pose_token")
            file, token = entries.image_file(row), entries.text(row, "token")
            found.add(calibration, sample, time, is_key, *size, poses.setdefault(pose, len(poses)))
            files.append(file)
            tokens.append(token)

        self._read("sample_data", image)
        calibration, sample, time, is_key, width, height, pose = found.array().T
        images = Images(
            scene=sample_scene[sample], camera=camera[calibration], sample=sample, time=time, is_key=is_key != 0,
            size=np.stack((width, height), axis=1), calibration=calibration, pose=pose,
            file=np.array(files, object), token=np.array(tokens, object),
        )  # fmt: skip
        return images[np.lexsort((images.time, images.camera, images.scene))]

    def _poses(self) -> Poses:
        """Those of the images; NaN where there is none."""
        rows = self._rows["ego_pose"]
        places, rotations = np.full((len(rows), 3), np.nan), np.full((len(rows), 4), np.nan)

        def pose(row: Row) -> None:
            number = rows.get(entries.text(row, "token"))
            if number is not None:
                places[number], rotations[number] = entries.numbers(row, "translation", 3), entries.quaternion(row)

        self._read("ego_pose", pose)
        rows.clear()
        return Poses(place=places, rotation=rotations)

    def _usable(self, images: Images, has_pose: Bools) -> Images:
        """Those that are there, once, at a time of their own, and whose pose is known."""
        root = self._wanted.root
        again = np.zeros(len(images.file), np.bool_)
        again[1:] = (np.diff(images.time) == 0) & (np.diff(images.camera) == 0) & (np.diff(images.scene) == 0)
        first: dict[str, int] = {}  # of those that would have the same labels
        stems = enumerate(os.path.splitext(file)[0] for file in images.file)
        repeated = np.array([first.setdefault(stem, place) != place for place, stem in stems], np.bool_)
        checks = (
            (FaultKind.TOKEN, ~has_pose[images.pose], "without a usable entry in ego_pose.json", _CORRECT),
            (FaultKind.FRAME_ORDER, again, "of the same camera and time as another", _CORRECT),
            (FaultKind.LISTED_TWICE, repeated, "whose file another entry has too", _CORRECT),
            (FaultKind.MISSING_IMAGE, ~_are_there(root, images.file), f"that {root} does not have",
             "unpack all archives there"),
        )  # fmt: skip
        good = np.ones(len(images.file), np.bool_)
        for kind, bad, what, fix in checks:
            bad &= good
            if bad.any():
                shown = images.file[bad.argmax()]
                self._note(kind, "sample_data", f"{counted(int(bad.sum()), 'image')} {what}, the first {shown}", fix)
            good &= ~bad
        return images[good]

    def _annotations(self) -> Annotations:
        found, centres, sizes, rotations = (
            GrowingColumns(3, whole=True),
            GrowingColumns(3),
            GrowingColumns(3),
            GrowingColumns(4),
        )

        def annotation(row: Row) -> None:
            sample = self._row("sample", row, "sample_token")
            if sample == UNWANTED:
                return
            instance, level = self._row("instance", row, "instance_token"), entries.visibility(row)
            centre, size, rotation = entries.numbers(row, "translation", 3), entries.sides(row), entries.quaternion(row)
            found.add(sample, instance, level)
            centres.add(*centre)
            sizes.add(*size)
            rotations.add(*rotation)

        self._read("sample_annotation", annotation)
        sample, instance, level = found.array().T
        _, first = np.unique(sample * len(self._rows["instance"]) + instance, return_index=True)
        if len(first) < len(sample):
            what = f"{counted(len(sample) - len(first), 'annotation')} of an instance that its sample has already"
            self._note(FaultKind.DUPLICATE_IDENTITY, "sample_annotation", what)
        first.sort()
        every = Annotations(
            sample=sample, instance=instance, level=level, centre=centres.array(), size=sizes.array(),
            rotation=rotations.array(),
        )  # fmt: skip
        return every[first[np.argsort(sample[first], kind="stable")]]


def _channel(row: Row) -> str:
    return entries.text(row, "channel") if row.get("modality") == "camera" else ""


def _are_there(root: Path, files: Texts) -> Bools:
    """By the listings of their folders: asking for each file takes minutes on network drives."""
    there: dict[str, set[str]] = {}
    found = np.zeros(len(files), np.bool_)
    for place, file in enumerate(files):
        folder, _, name = file.rpartition("/")
        if folder not in there:
            try:
                there[folder] = set(os.listdir(root / folder))
            except OSError:
                there[folder] = set()
        found[place] = name in there[folder]
    return found


def _table_sizes(wanted: Wanted) -> dict[str, int]:
    """In bytes; raises `UserError` where tables are missing."""
    if not wanted.root.is_dir():
        what = f"no such folder{nearest_file(wanted.root)}"
        raise UserError(what, where=wanted.root, fix="--root is the folder with samples, sweeps and v1.0-trainval")
    if not wanted.folder.is_dir():
        there = sorted(path.parent.name for path in wanted.root.glob("*/sample_data.json"))
        fix = f"give --version {' or '.join(there)}" if there else "unpack the metadata there: v1.0-trainval_meta.tgz"
        raise UserError(f"no such folder{nearest_file(wanted.folder)}", where=wanted.folder, fix=fix)
    missing = [f"{table}.json" for table in _IN_ORDER if not (wanted.folder / f"{table}.json").is_file()]
    if missing:
        what = f"has no {', '.join(missing)}"
        raise UserError(what, where=wanted.folder, fix="unpack all of the metadata there")
    return {table: (wanted.folder / f"{table}.json").stat().st_size for table in _IN_ORDER}
