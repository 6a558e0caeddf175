"""nuScenes as a data set that every command takes: COCO, YOLO labels and MOTChallenge sequences of the same 2-D boxes.

    data.yaml                                 to check, pack, preview and train; classes from 0
    train.txt, val.txt                        images of the splits
    images/samples, images/sweeps             links to the folders of nuScenes; no image is copied
    labels/samples/CAM_FRONT/….txt            class cx cy w h
    annotations/train.json                    COCO with videos: all columns, categories from 1
    sequences/train/sequences.yaml            to track and score
    sequences/train/SCENE_CAMERA/             img1/000001.jpg … (links), gt/gt.txt, seqinfo.ini, times.txt

The folder appears whole or not at all.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from yolofast.dataset.faults import Fault
from yolofast.dataset.shapes.made_once import make_once
from yolofast.errors import UserError
from yolofast.files.yaml_file import dump_yaml
from yolofast.track.formats.faults import refuse_faults
from yolofast.track.formats.mot import SEQINFO, TIMES, mot_content, seqinfo_content
from yolofast.track.formats.sequence import Sequence, make_sequence
from yolofast.track.formats.sequences_yaml import FILE_NAME, write_sequences_yaml
from yolofast.track.formats.table import folder_name
from yolofast.track.nuscenes.boxes import CameraBoxes, Filters, SceneBoxes
from yolofast.track.nuscenes.choices import data_key
from yolofast.track.nuscenes.coco_file import VISIBILITY, CocoFile
from yolofast.track.nuscenes.read_tables import Tell, read_tables
from yolofast.track.nuscenes.tables import Images, Tables, Wanted
from yolofast.words import counted

DATA_YAML = "data.yaml"
_NOT_THEIRS = "Scores on these boxes are 2-D scores, not nuScenes scores, which are 3-D."


@dataclass(frozen=True)
class ScenesSummary:
    scenes: int
    sequences: int
    images: int
    boxes: int
    tracks: int
    classes: Counter[str]


class NuscenesExport:
    """To be made once, by `write`; then `splits`, `faults` and `remarks` say what it holds and what was left out."""

    def __init__(self, wanted: Wanted, filters: Filters, tell: Tell, *, skip_bad: bool = False) -> None:
        self._wanted, self._filters, self._tell, self._skip_bad = wanted, filters, tell, skip_bad
        self.faults: list[Fault] = []
        self.remarks: tuple[str, ...] = ()
        self.splits: dict[str, ScenesSummary] = {}

    def make(self, folder: str | Path) -> Path:
        """The folder, which must be new or empty. Raises `UserError`."""
        return make_once(folder, self)

    def is_complete(self, folder: Path) -> bool:
        return False  # it is never found to be there already

    def is_such(self, folder: Path) -> bool:
        return False

    def write(self, folder: Path) -> None:
        tables = read_tables(self._wanted, self.faults, self._tell)
        self.remarks = (*tables.remarks, *_scenes_not_shown(tables))
        if not self._skip_bad:
            refuse_faults(self.faults, str(self._wanted.folder))
        keys = {split: data_key(split) for split in tables.splits}
        self._link_images(folder, tables.images)
        writer = _Writer(folder, tables, SceneBoxes(tables, self._filters))
        done, total = 0, sum(map(len, tables.splits.values()))
        for split, scenes in tables.splits.items():
            files = _SplitFiles(writer, split)
            try:
                for number, scene in enumerate(scenes, done):
                    files.add(number, scene)
                    self._tell("exporting", number + 1, total)
                done += len(scenes)
                self.splits[split] = files.finish(len(scenes))
            finally:
                files.close()
            if not self.splits[split].images:
                raise UserError(f"the split {split} has no images", where=self._wanted.root, fix="unpack its archives")
        self._write_yaml(folder, tables, keys)

    def _link_images(self, folder: Path, images: Images) -> None:
        (folder / "images").mkdir()
        for name in sorted({file.partition("/")[0] for file in images.file}):
            target = Path(os.path.abspath(self._wanted.root)) / name
            (folder / "images" / name).symlink_to(target, target_is_directory=True)

    def _write_yaml(self, folder: Path, tables: Tables, keys: dict[str, str]) -> None:
        filters, wanted = self._filters, self._wanted
        frames = "key frames and sweeps" if wanted.sweeps else "key frames"
        lists = {key: [f"{split}.txt" for split in keys if keys[split] == key] for key in dict.fromkeys(keys.values())}
        values = {
            "path": ".",
            **{key: found if len(found) > 1 else found[0] for key, found in lists.items()},
            "names": list(tables.classes),
            "category_ids": list(range(1, len(tables.classes) + 1)),
        }
        text = (
            f"# nuScenes {wanted.version}, {frames} of {', '.join(tables.cameras)}: boxes in space as 2-D boxes, made "
            "by `yolofast convert`.\n"
            f"# Visibility level from {filters.min_visibility}, occluded at most {filters.max_occlusion:g}, sides from "
            f"{filters.min_size:g} pixels. {_NOT_THEIRS}\n"
            "# annotations/ holds the same boxes as COCO with videos, sequences/ as MOTChallenge.\n"
        )
        text += dump_yaml(values, default_flow_style=None, width=120, allow_unicode=True)
        (folder / DATA_YAML).write_bytes(text.encode())


@dataclass(frozen=True)
class _Writer:
    """What all splits share."""

    folder: Path
    tables: Tables
    boxes: SceneBoxes

    @property
    def is_annotated(self) -> bool:
        """Not so the official test set: an empty label file would say that an image shows nothing."""
        return len(self.tables.annotations.sample) > 0


class _SplitFiles:
    """The files of one split, while its scenes are added."""

    def __init__(self, writer: _Writer, split: str) -> None:
        self._writer, self._split, self._tables = writer, split, writer.tables
        self._sequences = writer.folder / "sequences" / split
        self._sequences.mkdir(parents=True)
        self._names: list[str] = []
        self._classes: Counter[str] = Counter()
        self._label_folders: set[str] = set()
        (writer.folder / "annotations").mkdir(exist_ok=True)
        self._coco = CocoFile(writer.folder / "annotations" / f"{split}.json", self._tables.classes)
        self._list = (writer.folder / f"{split}.txt").open("w", encoding="utf-8")

    def add(self, number: int, scene: str) -> None:
        for found in self._writer.boxes.of(number):
            images = self._tables.images[found.images]
            camera = self._tables.cameras[found.camera]
            sequence = _sequence(folder_name(f"{scene}_{camera}"), images, found)
            about = {"file_name": sequence.name, "scene": scene, "camera": camera, "frame_rate": sequence.frame_rate}
            self._list.write("".join(f"./images/{file}\n" for file in images.file))
            self._coco.add(about, images, found, self._tables.instance_token)
            self._write_sequence(sequence, images)
            if self._writer.is_annotated:
                self._write_labels(images, found)
            labels, counts = np.unique(found.boxes.label, return_counts=True)
            named = zip(labels.tolist(), counts.tolist(), strict=True)
            self._classes.update({self._tables.classes[label]: count for label, count in named})

    def finish(self, scenes: int) -> ScenesSummary:
        self._coco.finish()
        write_sequences_yaml(self._sequences / FILE_NAME, self._tables.classes, self._names, _NOT_THEIRS)
        coco = self._coco
        return ScenesSummary(scenes, len(self._names), coco.images, coco.boxes, coco.tracks, self._classes)

    def close(self) -> None:
        self._list.close()
        self._coco.close()

    def _write_sequence(self, sequence: Sequence, images: Images) -> None:
        folder = self._sequences / sequence.name
        (folder / "img1").mkdir(parents=True)
        self._names.append(sequence.name)
        ending = os.path.splitext(images.file[0])[1]
        start = os.path.join(folder, "img1")
        for number, file in enumerate(images.file, 1):
            own = os.path.splitext(file)[1]
            os.symlink(f"../../../../images/{file}", f"{start}/{number:06}{own}")
        (folder / SEQINFO).write_bytes(seqinfo_content(sequence, "img1", ending))
        seconds = (images.time - images.time[0]) / 1e6
        (folder / TIMES).write_bytes("".join(f"{one:.6f}\n" for one in seconds.tolist()).encode())
        if self._writer.is_annotated:
            (folder / "gt").mkdir()
            (folder / "gt" / "gt.txt").write_bytes(mot_content(sequence, "truth"))

    def _write_labels(self, images: Images, found: CameraBoxes) -> None:
        root = os.path.join(self._writer.folder, "labels")
        for file, rows in zip(images.file, _label_rows(images, found), strict=True):
            folder = file.rpartition("/")[0]
            if folder not in self._label_folders:
                os.makedirs(f"{root}/{folder}", exist_ok=True)
                self._label_folders.add(folder)
            with open(f"{root}/{os.path.splitext(file)[0]}.txt", "w", encoding="ascii") as text:
                text.write("".join(rows))


def _scenes_not_shown(tables: Tables) -> Iterator[str]:
    """Cameras that were wanted, but of which images are missing."""
    scenes, images = sum(map(len, tables.splits.values())), tables.images
    for number, camera in enumerate(tables.cameras):
        shown = len(np.unique(images.scene[images.camera == number]))
        if shown < scenes:
            yield f"{camera}: it has images of {shown:,} of the {counted(scenes, 'scene')}"


def _label_rows(images: Images, found: CameraBoxes) -> Iterator[list[str]]:
    """Of each image; eight decimals are a hundred-thousandth of a pixel."""
    box, size = found.boxes.box, images.size[found.frame - 1]
    shares = np.hstack(((box[:, :2] + box[:, 2:]) / 2 / size, (box[:, 2:] - box[:, :2]) / size))
    rows = [
        f"{label} {x:.8f} {y:.8f} {width:.8f} {height:.8f}\n"
        for label, (x, y, width, height) in zip(found.boxes.label.tolist(), shares.tolist(), strict=True)
    ]
    starts = np.searchsorted(found.frame, np.arange(1, len(images.file) + 2)).tolist()
    return (rows[start:end] for start, end in pairwise(starts))


def _sequence(name: str, images: Images, found: CameraBoxes) -> Sequence:
    steps = np.diff(images.time)
    return make_sequence(
        name,
        frame=found.frame,
        id=found.id,
        box=found.boxes.box,
        label=found.boxes.label,
        visibility=VISIBILITY[found.boxes.level],
        length=len(images.file),
        frame_rate=round(1e6 / float(np.median(steps)), 3) if len(steps) else None,
        width=int(images.size[0, 0]),
        height=int(images.size[0, 1]),
    )
