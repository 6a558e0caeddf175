"""A split labelled by text files, one beside each image.

Their text is read twice when something changed: once to see that, once to parse it. Holding the text of a large data
set in memory instead would cost more than reading it again from the page cache.
"""

import hashlib
import os
from dataclasses import dataclass

import numpy as np

from yolofast.dataset.faults import FaultKind
from yolofast.dataset.image_facts import Look, file_stamps, read_image_facts
from yolofast.dataset.label_text import parse_labels
from yolofast.dataset.listing import label_path
from yolofast.dataset.reading import Classes, ImageRows, Reading, build_index
from yolofast.dataset.regular_file import open_regular
from yolofast.image_index import Ints
from yolofast.threads import in_threads

NO_LABEL_FILE = b""
_UNREADABLE = b"unreadable"
_MAX_DIGITS = 18  # what an int64 holds


@dataclass(frozen=True)
class _LabelText:
    digest: bytes
    text: str | None = None
    reason: str = ""
    """Why there is no text."""


@dataclass(frozen=True)
class _LabelFile:
    digest: bytes
    rows: ImageRows


def label_digests(images: list[str]) -> list[bytes]:
    """What names the text of each image's label file; NO_LABEL_FILE where there is none."""
    return in_threads(lambda image: _read(label_path(image)).digest, images)


def yolo_key(digests: list[bytes], images: list[str], settings: str) -> str:
    """Names everything the labels depend on: the texts, whose they are, and how they are read."""
    key = hashlib.blake2b(settings.encode(), digest_size=20)
    for image, digest in zip(images, digests, strict=True):
        key.update(os.fsencode(image) + b"\0" + digest + b"\0")
    return key.hexdigest()


def read_yolo(images: list[str], classes: Classes, single_cls: bool, settings: str, look: Look) -> Reading:
    stamps = file_stamps(images)
    facts = read_image_facts(images, stamps, look)
    nc = None if single_cls else classes.nc
    files = in_threads(lambda image: _read_label_file(image, nc), images)
    for file, size in zip(files, facts.sizes, strict=True):
        file.rows.note_tiny_boxes(size)
    index = build_index([file.rows for file in files], facts.sizes, classes, _image_ids(images))
    if single_cls:
        index.labels[:] = 0
    faults = facts.faults + [fault for file in files for fault in file.rows.faults]
    return Reading(index, faults, stamps, yolo_key([file.digest for file in files], images, settings))


def _read_label_file(image: str, nc: int | None) -> _LabelFile:
    path = label_path(image)
    file = _read(path)
    rows = ImageRows(path, image)
    if file.digest == NO_LABEL_FILE:
        fix = f"put its labels into {path}; an empty file says that it shows nothing"
        rows.note(FaultKind.NO_LABEL, f"missing, so {image} counts as background", fix, fatal=False)
    elif file.text is None:
        what = f"not a readable text file: {file.reason}"
        rows.note(FaultKind.UNREADABLE_LABEL, what, "save it as plain UTF-8 text")
    else:
        rows = parse_labels(file.text, nc, path, image)
    return _LabelFile(file.digest, rows)


def _read(path: str) -> _LabelText:
    try:
        with open_regular(path) as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return _LabelText(NO_LABEL_FILE)
    except OSError as error:
        return _LabelText(_UNREADABLE, reason=error.strerror or str(error))
    digest = hashlib.blake2b(content, digest_size=16).digest()
    try:
        return _LabelText(digest, content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return _LabelText(digest, reason=str(error))


def _image_ids(images: list[str]) -> Ints:
    """The number an image is named by, as in COCO, if all are named by different ones; else its position."""
    stems = [os.path.splitext(os.path.basename(image))[0] for image in images]
    if all(stem.isdecimal() and stem.isascii() and len(stem) <= _MAX_DIGITS for stem in stems):
        numbers = np.array([int(stem) for stem in stems], dtype=np.int64)
        if len(np.unique(numbers)) == len(numbers):
            return numbers
    return np.arange(len(images), dtype=np.int64)
