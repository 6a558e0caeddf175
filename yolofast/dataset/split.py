"""One split of a data set, from its data yaml to an `ImageIndex`: what `yolofast` commands and training read.

The form of the labels is found out: a `.json` entry or an `annotations` entry is COCO, text files next to the images
are YOLO's. Without either a COCO file is looked for in the usual places.
"""

import json
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from yolofast.dataset.coco_document import conventional_annotations, open_coco
from yolofast.dataset.coco_labels import coco_key, read_coco
from yolofast.dataset.data_yaml import IMAGE_SUFFIXES, DataYaml, label_path, read_data_yaml
from yolofast.dataset.faults import Fault, FaultKind, refuse_fatal
from yolofast.dataset.formats.recognise import recognise
from yolofast.dataset.image_facts import Look
from yolofast.dataset.index_cache import (
    SINGLE_CLASS,
    Classes,
    Reading,
    build_index,
    cache_files,
    known_images,
    load_reading,
    store_reading,
    trusted_reading,
)
from yolofast.dataset.listing import Listing, first_share, list_split
from yolofast.dataset.yolo_labels import read_yolo, yolo_key
from yolofast.errors import UserError, shorten
from yolofast.extensions import FORMATS
from yolofast.image_index import ImageIndex
from yolofast.words import own_command

# Raised whenever the same files would be read differently, so that older caches are not used.
_READER_VERSION = 2


@dataclass(frozen=True)
class SplitReport:
    index: ImageIndex
    """The usable images if bad ones were skipped; otherwise all, bad ones without boxes."""
    faults: tuple[Fault, ...]
    skipped: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _Request:
    data: DataYaml
    split: str
    single_cls: bool
    fraction: float
    cache: bool
    decode: bool

    def settings(self) -> str:
        """Everything a reading depends on apart from the files."""
        classes = [self.data.nc, self.data.names, self.data.category_ids, self.single_cls]
        return json.dumps([_READER_VERSION, self.split, *classes, self.fraction, self.decode])

    def fault(self, what: str, fix: str, *, fatal: bool = True, command: str | None = None) -> Fault:
        """The split as a whole cannot be used."""
        path, line, kind = str(self.data.path), self.data.file.line(self.split), FaultKind.EMPTY_SPLIT
        return Fault(kind=kind, where=path, line=line, what=what, fix=fix, fatal=fatal, command=command)

    def reading(self, key: str, read: Callable[[Look], Reading]) -> Reading:
        """From the cache if nothing has changed, else read and stored there."""
        files = cache_files(self.data.path, self.split, self.settings()) if self.cache else []
        reading = load_reading(files, key)
        if reading is None:
            reading = read(Look(self.decode, known_images(files)))
            store_reading(files, reading)
        return reading


class Reads(TypedDict, total=False):
    """How a split is read.

    `single_cls` makes every label class 0, named `item`. `fraction` takes that share of the images, the first ones of
    the list. Only headers are read; `skip_bad` decodes every image, once, and omits what fails. `trust` takes what was
    stored by an earlier reading of this kind as it is: no folder is listed, no file is looked at.
    """

    single_cls: bool
    fraction: float
    skip_bad: bool
    cache: bool
    trust: bool


def read_split(data_yaml: str | Path, split: str = "train", **how: Unpack[Reads]) -> ImageIndex:
    """The images of a split and their boxes; a split with fatal faults is refused, or cleaned with `skip_bad`."""
    return read_split_report(data_yaml, split, **how).index


def read_split_report(data_yaml: str | Path, split: str = "train", **how: Unpack[Reads]) -> SplitReport:
    """As `read_split`, with the warnings and what was skipped."""
    report = inspect_split(data_yaml, split, **how)
    unusable = [fault for fault in report.faults if fault.kind is FaultKind.EMPTY_SPLIT]
    refuse_fatal(unusable if how.get("skip_bad") else report.faults, split, str(data_yaml))
    bad = {os.fsencode(fault.image) for fault in report.faults if fault.fatal and fault.image is not None}
    keep = np.array([file not in bad for file in report.index.files.tolist()], dtype=np.bool_)
    if not keep.any():
        raise UserError(f"no image of the {split} split is usable", where=data_yaml, fix=f"see {own_command()} check")
    index = report.index if keep.all() else report.index.take(np.flatnonzero(keep))
    if _needs_boxes(split) and not _has_boxes(index):
        what = f"no usable image of the {split} split has a box"
        raise UserError(what, where=data_yaml, fix=f"see {own_command()} check --data {shlex.quote(str(data_yaml))}")
    return replace(report, index=index, skipped=tuple(report.index.path(int(i)) for i in np.flatnonzero(~keep)))


def inspect_split(
    data_yaml: str | Path,
    split: str,
    *,
    single_cls: bool = False,
    fraction: float = 1.0,
    cache: bool = True,
    skip_bad: bool = False,
    trust: bool = False,
) -> SplitReport:
    """All images and all faults; refuses only what cannot be inspected. `skip_bad` decodes images to find bad ones."""
    if not 0.0 < fraction <= 1.0:
        raise UserError(f"fraction must be above 0 and at most 1, not {shorten(fraction)}", fix="0.1 is a tenth")
    request = _Request(read_data_yaml(data_yaml), split, single_cls, float(fraction), cache, skip_bad)
    data = request.data
    if trust and (stored := trusted_reading(cache_files(data.path, split, request.settings()))) is not None:
        return _report(request, stored, None)
    entries = data.entries(split)
    if any(entry.lower().endswith(".json") for entry in entries):
        if len(entries) > 1:
            what = f"{split} lists a COCO file together with other entries"
            fix = "give one COCO file, or folders and list files"
            raise UserError(what, where=data.path, line=data.file.line(split), fix=fix)
        return _inspect_coco(request, entries[0], None)
    listing = list_split(data, split)
    if not listing.images:
        return _empty(request, listing)
    if (annotations := data.annotations(split)) is not None:
        return _inspect_coco(request, annotations, listing)
    listing = replace(listing, images=listing.images[: first_share(len(listing.images), fraction)])
    listing.first.clear()  # for millions of images it is as large as the index
    key, has_labels = yolo_key(listing.images, request.settings())
    if not has_labels:
        if (found := conventional_annotations(listing.sources, split)) is not None:
            return _inspect_coco(request, str(found), list_split(data, split))
        # Where labels are needed this is fatal; elsewhere images without labels are background.
        listing.faults.append(_without_labels(request, listing))
    return _inspect_yolo(request, listing, key)


def _without_labels(request: _Request, listing: Listing) -> Fault:
    """No label file at all. Labels of another form may lie beside the images, or one folder up."""
    first, split = listing.images[0], request.split
    what = f"none of the {len(listing.images)} {split} images has a label file"
    source = listing.sources[0]
    if found := _of_another_form(request, what, [source, source.parent]):
        return found
    fix = f"put the labels of {first} into {label_path(first)}, or name a COCO file under `annotations:`"
    return request.fault(what, fix, fatal=_needs_boxes(split))


def _of_another_form(request: _Request, what: str, folders: Sequence[Path]) -> Fault | None:
    for folder in folders:
        seen = recognise(folder) if folder.is_dir() else None
        if seen is not None and FORMATS[seen.format].holds == "images" and seen.format != "yolo":
            what = f"{what}, but {folder} looks like {seen.title} ({seen.seen})"
            fatal = _needs_boxes(request.split)
            return request.fault(what, "convert it", fatal=fatal, command=seen.command)
    return None


def _inspect_yolo(request: _Request, listing: Listing, key: str) -> SplitReport:
    def read(look: Look) -> Reading:
        classes = SINGLE_CLASS if request.single_cls else _yolo_classes(request.data)
        return read_yolo(listing.images, classes, request.single_cls, request.settings(), look)

    reading = request.reading(key, read)
    return _report(request, reading, listing)


def _inspect_coco(request: _Request, entry: str, listing: Listing | None) -> SplitReport:
    data = request.data
    path = data.require(entry, "annotations" if listing is not None else request.split)
    content = open_coco(path)
    key = coco_key(path, content, listing, request.settings())
    reading = request.reading(
        key, lambda look: read_coco(path, content, listing, data, request.single_cls, request.fraction, key, look)
    )
    if not len(reading.index):
        return _empty(request, listing or Listing([], [path], []))
    return _report(request, reading, listing)


def _report(request: _Request, reading: Reading, listing: Listing | None) -> SplitReport:
    faults = [*(listing.faults if listing is not None else ()), *reading.faults]
    # A fatal fault probably explains the lack of boxes, and that there are no labels has been reported.
    explained = any(fault.fatal or fault.kind is FaultKind.EMPTY_SPLIT for fault in faults)
    if request.split != "test" and not _has_boxes(reading.index) and not explained:
        what = f"none of the {len(reading.index):,} {request.split} images has a box"
        where = "the label files are empty" if reading.index.annotations is None else f"see {reading.index.annotations}"
        fix = "label some of them, or name other images or labels"
        faults.append(request.fault(f"{what}: {where}", fix, fatal=_needs_boxes(request.split)))
    return SplitReport(reading.index, tuple(faults))


def _needs_boxes(split: str) -> bool:
    """Only training does. A validation split without boxes is all background: odd, but what the files say."""
    return split == "train"


def _has_boxes(index: ImageIndex) -> bool:
    return bool((~index.crowd).any())


def _yolo_classes(data: DataYaml) -> Classes:
    names = data.classes()
    ids = range(len(names)) if data.category_ids is None else data.category_ids
    return Classes(names, np.array(ids, dtype=np.int64))


def _empty(request: _Request, listing: Listing) -> SplitReport:
    data, split = request.data, request.split
    fix = f"check the path; images end in {', '.join(sorted(IMAGE_SUFFIXES))}"
    what = f"the {split} split holds no image"
    voc = [folder for source in listing.sources[:1] if (folder := folder_of_voc(source))]
    known = _of_another_form(request, what, voc)
    classes = SINGLE_CLASS if request.single_cls or data.nc is None else _yolo_classes(data)
    index = build_index([], np.zeros((0, 2), np.int64), classes, np.zeros(0, np.int64))
    # What the list belongs to explains all that is wrong with its lines.
    return SplitReport(index, (known, *listing.faults) if known else (*listing.faults, request.fault(what, fix)))


def folder_of_voc(list_file: Path) -> Path | None:
    """Pascal VOC's lists (`ImageSets/Main/train.txt`) name images without their endings, so no line is an image."""
    return next((folder.parent for folder in list_file.absolute().parents if folder.name == "ImageSets"), None)
