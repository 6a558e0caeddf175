"""A split as a reader found it, and its cache: stored between runs, and used again only while the data is unchanged.

Bad images stay in a reading, without boxes, so that it can be stored once and then refused or cleaned as requested.

Labels are compared by the hash of their text, images by size and modification time. So a label edited within a clock
tick and to the same length is noticed, and no image has to be read. The price is reading all label texts at every
start. A cache that is missing, damaged or old is rewritten silently.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from yolofast.dataset.faults import Fault, FaultKind
from yolofast.dataset.image_facts import KnownImage, file_stamps
from yolofast.files.atomic_file import DATA_CACHE, may_be_written, user_cache_folder, write_whole_by
from yolofast.files.budget import open_regular
from yolofast.files.known_numbers import NO_ARRAYS
from yolofast.image_index import ImageIndex, Ints, starts_of
from yolofast.resources import ROOT

SMALLEST_BOX_PX = 2.0
CHUNK = 4_000
"""Images that are read at a time: what Python makes of one is a dozen times what is kept."""
MOST_LISTED = 100
"""Faults of one kind in the labels of one image: a megabyte of text can have half a million."""
_ARRAYS = tuple(name.name for name in fields(ImageIndex) if name.name not in ("names", "annotations"))
Box = tuple[float, float, float, float]
"""cx, cy, w, h as shares of the image."""
Place = tuple[int | None, str]
"""Line and name of a box, for messages."""


@dataclass(frozen=True)
class Classes:
    """How the numbers in the labels become classes."""

    names: tuple[str, ...]
    category_ids: Ints
    """[nc]"""


SINGLE_CLASS = Classes(("item",), np.zeros(1, np.int64))


@dataclass(frozen=True)
class Reading:
    index: ImageIndex
    faults: list[Fault]
    stamps: Ints
    """[N, 2] bytes and modification times of the images, taken before they were read."""
    key: str
    """Names the content of the labels it was read from."""


@dataclass
class ImageRows:
    """The boxes of one image, one list per property. With a fatal fault only the faults count."""

    where: str
    """The file they are in."""
    image: str
    labels: list[int] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    polygons: list[list[float]] = field(default_factory=list)
    """x1, y1, x2, y2, … of each box; empty if it has none."""
    crowd: list[bool] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    """The first of each kind; `all_faults` says that there were more."""
    unlisted: Counter[tuple[FaultKind, bool]] = field(default_factory=Counter)
    """How many more, by kind and whether they are fatal."""
    _listed: Counter[tuple[FaultKind, bool]] = field(default_factory=Counter)

    def add(self, label: int, box: Box, polygon: list[float], place: Place, crowd: bool = False) -> None:
        self.labels.append(label)
        self.boxes.append(box)
        self.polygons.append(polygon)
        self.places.append(place)
        self.crowd.append(crowd)

    def note(self, kind: FaultKind, what: str, fix: str, *, line: int | None = None, fatal: bool = True) -> None:
        if self._listed[kind, fatal] == MOST_LISTED:
            self.unlisted[kind, fatal] += 1
            return
        self._listed[kind, fatal] += 1
        self.faults.append(self._fault(kind, what, fix, line, fatal))

    def _fault(self, kind: FaultKind, what: str, fix: str, line: int | None, fatal: bool) -> Fault:
        return Fault(kind=kind, where=self.where, line=line, what=what, fix=fix, fatal=fatal, image=self.image)

    def all_faults(self) -> list[Fault]:
        """With one more for each kind of which not all are listed."""
        rest = []
        for (kind, fatal), count in self.unlisted.items():
            # A reader may stop at the first fatal one that is not listed, so that their number is not known.
            what = f"{'' if fatal else f'{count:,} '}more of this kind are not listed"
            fix = "correct those that are listed, then check again"
            rest.append(self._fault(kind, what, fix, None, fatal))
        return [*self.faults, *rest]

    def note_tiny_boxes(self, size: Ints) -> None:
        """Boxes under two pixels of the image as stored: nothing can be learned from them."""
        if not size.all():
            return
        for (_, _, w, h), (line, name) in zip(self.boxes, self.places, strict=True):
            width, height = w * int(size[0]), h * int(size[1])
            if min(width, height) < SMALLEST_BOX_PX:
                what = f"{name} is {width:.2g}×{height:.2g} pixels"
                self.note(FaultKind.TINY_BOX, what, "remove it, or draw it larger", line=line, fatal=False)


def build_index(
    rows: Sequence[ImageRows], sizes: Ints, classes: Classes, image_ids: Ints, annotations: Path | None = None
) -> ImageIndex:
    # An image with a broken row has none at all: half of its boxes would teach the wrong thing.
    usable = [ImageRows(one.where, one.image) if any(fault.fatal for fault in one.faults) else one for one in rows]
    polygons = [polygon for one in usable for polygon in one.polygons]
    points = [np.array(polygon, np.float32) for polygon in polygons if polygon]
    return ImageIndex(
        names=classes.names,
        files=np.array([os.fsencode(one.image) for one in rows], dtype=np.bytes_),
        sizes=sizes,
        starts=starts_of([len(one.labels) for one in usable]),
        labels=np.array([label for one in usable for label in one.labels], dtype=np.int64),
        boxes=np.array([box for one in usable for box in one.boxes], dtype=np.float32).reshape(-1, 4),
        points=np.concatenate([np.zeros(0, np.float32), *points]).reshape(-1, 2),
        point_starts=starts_of([len(polygon) // 2 for polygon in polygons]),
        crowd=np.array([crowd for one in usable for crowd in one.crowd], dtype=np.bool_),
        image_ids=image_ids,
        category_ids=classes.category_ids,
        annotations=annotations,
    )


def cache_files(data_yaml: Path, split: str, settings: str) -> list[Path]:
    """Where a split's reading may be, best first; one file per way of reading it, replaced when the data changes."""
    identity = hashlib.blake2b(f"{data_yaml.resolve()}\n{settings}".encode("utf-8", "surrogateescape"), digest_size=6)
    name = f"{data_yaml.stem}-{split}-{identity.hexdigest()}.index.npz"
    return [folder / name for folder in _folders(data_yaml)]


def _folders(data_yaml: Path) -> Iterator[Path]:
    """Next to the data yaml, or in the user's cache if nothing can or should be written there."""
    parent = data_yaml.absolute().parent
    if may_be_written(parent) and not data_yaml.resolve().is_relative_to(ROOT.resolve()):
        yield parent / DATA_CACHE
    yield user_cache_folder() / "index"


def load_reading(files: list[Path], key: str) -> Reading | None:
    """The stored reading whose labels have this key and whose images are unchanged, if there is one."""
    for reading in _stored(files):
        if reading.key == key and _are_unchanged(reading):
            return reading
    return None


def trusted_reading(files: list[Path]) -> Reading | None:
    """The stored one, whatever has become of labels and images since: nothing of them is looked at."""
    return next(_stored(files), None)


def _are_unchanged(reading: Reading) -> bool:
    parts = (slice(first, first + CHUNK) for first in range(0, len(reading.index), CHUNK))
    return all(np.array_equal(file_stamps(_paths(reading.index.files[part])), reading.stamps[part]) for part in parts)


class KnownImages:
    """What the stored reading says of single images, whatever has become of the labels since: an image's path is
    looked for among sorted ones, because a dictionary of millions would be larger than all of the index."""

    def __init__(self, reading: Reading) -> None:
        self._order = np.argsort(reading.index.files)
        self._files, self._stamps, self._sizes = reading.index.files, reading.stamps, reading.index.sizes
        # A fault of the image itself is in the image; others are in its labels.
        self._faults = {fault.image: fault for fault in reading.faults if fault.image == fault.where}

    def get(self, image: str) -> KnownImage | None:
        path = os.fsencode(image)
        if len(path) > self._files.itemsize:  # a longer one makes NumPy copy all of them
            return None
        place = int(np.searchsorted(self._files, path, sorter=self._order))
        row = int(self._order[place]) if place < len(self._order) else -1
        if row < 0 or self._files[row] != path or self._stamps[row, 0] < 0:
            return None
        (size, date), (width, height) = self._stamps[row].tolist(), self._sizes[row].tolist()
        return KnownImage((size, date), (width, height), self._faults.get(image))


def known_images(files: list[Path]) -> KnownImages | None:
    return next((KnownImages(reading) for reading in _stored(files)), None)


def _stored(files: list[Path]) -> Iterator[Reading]:
    for file in files:
        try:
            with open_regular(file) as handle:
                reading = _decode(handle)
        except NO_ARRAYS:
            continue
        yield reading


def store_reading(files: list[Path], reading: Reading) -> None:
    """Into the first place that can be written; nowhere if none can."""
    for file in files:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole_by(file, partial(_encode, reading))
        except OSError:
            continue
        return


def _paths(files: npt.NDArray[np.bytes_]) -> list[str]:
    return [os.fsdecode(file) for file in files.tolist()]


def _encode(reading: Reading, into: BinaryIO) -> None:
    index = reading.index
    about = {
        "key": reading.key,
        "names": index.names,
        "annotations": None if index.annotations is None else str(index.annotations),
        "faults": [vars(fault) for fault in reading.faults],
    }
    arrays = {name: getattr(index, name) for name in _ARRAYS}
    np.savez(into, about=np.frombuffer(json.dumps(about).encode(), np.uint8), stamps=reading.stamps, **arrays)


def _decode(content: BinaryIO) -> Reading:
    with np.load(content, allow_pickle=False) as stored:
        arrays: dict[str, npt.NDArray[Any]] = {name: stored[name] for name in (*_ARRAYS, "stamps", "about")}
    about = json.loads(arrays.pop("about").tobytes())
    stamps = arrays.pop("stamps")
    annotations = None if about["annotations"] is None else Path(about["annotations"])
    index = ImageIndex(names=tuple(about["names"]), annotations=annotations, **arrays)
    _require_consistent(index, stamps)
    faults = [Fault(**{**fault, "kind": FaultKind(fault["kind"])}) for fault in about["faults"]]
    return Reading(index, faults, stamps, about["key"])


def _require_consistent(index: ImageIndex, stamps: Ints) -> None:
    """Everything is as long as it has to be, and leads to something that is there."""
    images, boxes, classes = len(index), len(index.labels), len(index.names)
    shapes = {
        "sizes": (images, 2), "starts": (images + 1,), "labels": (boxes,), "boxes": (boxes, 4),
        "points": (len(index.points), 2), "point_starts": (boxes + 1,), "crowd": (boxes,), "image_ids": (images,),
        "category_ids": (classes,),
    }  # fmt: skip
    kinds = {"files": "S", "boxes": "f", "points": "f", "crowd": "b"}
    for name in _ARRAYS:
        array = getattr(index, name)
        if array.shape != shapes.get(name, (images,)) or array.dtype.kind != kinds.get(name, "i"):
            raise ValueError(f"{name} do not fit")
    for starts, of in ((index.starts, boxes), (index.point_starts, len(index.points))):
        if starts[0] != 0 or starts[-1] != of or (np.diff(starts) < 0).any():
            raise ValueError("starts do not fit")
    in_range = (index.labels >= 0).all() and (index.labels < classes).all() and (index.sizes >= 0).all()
    if not in_range or stamps.shape != (images, 2) or stamps.dtype.kind != "i":
        raise ValueError("values do not fit")
    if not all(isinstance(name, str) for name in index.names):
        raise ValueError("names do not fit")
