"""A split labelled by text files, one per image, and every fault in them with its line.

Rows are `class cx cy w h`. A row of more than 8 values makes the file one of polygons, `class x1 y1 x2 y2 …`, and the
boxes are those around them. A repeated row is dropped; a box that reaches out of the image is clipped to it.

The text is read twice when something changed: once to notice that, once to parse it. Holding the text of a large data
set in memory instead would cost more than reading it again from the page cache.
"""

import hashlib
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from yolofast.dataset.data_yaml import label_path
from yolofast.dataset.faults import Fault, FaultKind
from yolofast.dataset.image_facts import Look, file_stamps, read_image_facts
from yolofast.dataset.index_cache import CHUNK, Box, Classes, ImageRows, Reading, build_index
from yolofast.errors import shorten
from yolofast.files.budget import read_bounded
from yolofast.files.threads import in_threads
from yolofast.image_index import ImageIndex, Ints, joined
from yolofast.words import counted

_BOX_COLUMNS = 5
_LONGEST_BOX_ROW = 8
_OVERSHOOT = 1e-3  # less is how tools round
_ONE = 1.0 + 2.0**-25  # what still rounds to 1 in single precision
_MAX_DIGITS = 18  # what an int64 holds
NO_LABEL_FILE = b""
_MOST_BYTES = 2**26
"""Of a label file: a million rows."""
_UNREADABLE = b"unreadable"


class RowError(ValueError):
    """A row that cannot be used, and what to do about it."""

    def __init__(self, kind: FaultKind, what: str, fix: str) -> None:
        super().__init__(what)
        self.kind, self.what, self.fix = kind, what, fix


def parse_labels(text: str, nc: int | None, where: str, image: str) -> ImageRows:
    """`nc` None accepts any class number, for training without classes (`single_cls`)."""
    rows = ImageRows(where, image)
    lines = text.split("\n")
    # Split twice: the parts of a million rows, kept, would cost more than all that is made of them.
    polygons = any(len(line.split()) > _LONGEST_BOX_ROW for line in lines)
    first_line: dict[tuple[float, ...], int] = {}
    for number, line in enumerate(lines, 1):
        if not (fields := line.split()):
            continue
        try:
            row = _parse_row(fields, polygons, nc)
        except RowError as error:
            rows.note(error.kind, error.what, error.fix, line=number)
            if rows.unlisted[error.kind, True]:  # the image is not used in any case
                break
            continue
        if (earlier := first_line.setdefault(row, number)) != number:
            what = f"repeats line {earlier}; it counts once"
            rows.note(FaultKind.DUPLICATE_ROW, what, "remove the line", line=number, fatal=False)
            continue
        label, *coordinates = row
        box = bounding_box(coordinates) if polygons else _clipped(rows, number, (row[1], row[2], row[3], row[4]))
        rows.add(int(label), box, coordinates if polygons else [], (number, "the box"))
    return rows


def _parse_row(fields: list[str], polygons: bool, nc: int | None) -> tuple[float, ...]:
    _check_columns(len(fields), polygons)
    row = tuple(finite_number(text) for text in fields)
    if not row[0].is_integer() or not 0 <= row[0] < (2**53 if nc is None else nc):
        last = "" if nc is None else f" to {nc - 1}"
        what = f"class {fields[0][:40]} is not a whole number from 0{last}"
        raise RowError(FaultKind.UNKNOWN_CLASS, what, "correct the label, or nc and names in the data yaml")
    for text, value in zip(fields[1:], row[1:], strict=True):
        if not 0.0 <= value <= _ONE:
            fix = "divide x and width by the image's width, y and height by its height"
            raise RowError(FaultKind.OUT_OF_RANGE, f"{text[:40]} is outside 0 to 1", fix)
    return row


def _clipped(rows: ImageRows, line: int, box: Box) -> Box:
    """The box within the image, with a warning; untouched if it reaches out no further than rounding explains."""
    cx, cy, w, h = box
    edges = {"left": cx - w / 2, "top": cy - h / 2, "right": cx + w / 2, "bottom": cy + h / 2}
    outside = {name: edge for name, edge in edges.items() if not -_OVERSHOOT <= edge <= 1 + _OVERSHOOT}
    if not outside:
        return box
    named = ", ".join(f"its {name} edge is at {edge:.4g}" for name, edge in outside.items())
    what, fix = f"the box reaches out of the image: {named}; it is clipped", "check cx, cy, w and h"
    rows.note(FaultKind.OUT_OF_RANGE, what, fix, line=line, fatal=False)
    left, top, right, bottom = (min(max(edge, 0.0), 1.0) for edge in edges.values())
    return (left + right) / 2, (top + bottom) / 2, right - left, bottom - top


def _check_columns(count: int, polygons: bool) -> None:
    if polygons and (count < 7 or count % 2 == 0):
        what = f"{count} values in a file of polygons (one of its rows has more than {_LONGEST_BOX_ROW})"
        fix = "write class x1 y1 x2 y2 x3 y3 … on every row: boxes and polygons do not mix in one file"
        raise RowError(FaultKind.COLUMNS, what, fix)
    if not polygons and count != _BOX_COLUMNS:
        what = f"{counted(count, 'value')} instead of {_BOX_COLUMNS}"
        raise RowError(FaultKind.COLUMNS, what, "write class cx cy w h")


def finite_number(text: str) -> float:
    """Raises `RowError`."""
    try:
        value = None if "_" in text else float(text)  # Python would allow _ within a number
    except ValueError:
        value = None
    if value is None:
        fix = "separate numbers by spaces, with . for decimals"
        raise RowError(FaultKind.NOT_A_NUMBER, f"{shorten(text)} is not a number", fix)
    if not math.isfinite(value):
        fix = "correct or remove the line, and look at what wrote it"
        raise RowError(FaultKind.NOT_A_NUMBER, f"{shorten(text)} is not a finite number", fix)
    return value


def bounding_box(polygon: list[float]) -> Box:
    """cx, cy, w, h around x1, y1, x2, y2, …"""
    x, y = polygon[0::2], polygon[1::2]
    left, right, top, bottom = min(x), max(x), min(y), max(y)
    return (left + right) / 2, (top + bottom) / 2, right - left, bottom - top


@dataclass(frozen=True)
class LabelText:
    digest: bytes
    text: str | None = None
    reason: str = ""
    """Why there is no text."""
    fix: str = "save it as plain UTF-8 text"


def label_digests(images: list[str]) -> list[bytes]:
    """What names the text of each image's label file; NO_LABEL_FILE where there is none."""
    return in_threads(lambda image: read_label(label_path(image)).digest, images)


class YoloKey:
    """Names everything the labels depend on: the texts, whose they are, and how they are read."""

    def __init__(self, settings: str) -> None:
        self._key = hashlib.blake2b(settings.encode(), digest_size=20)

    def add(self, digests: Iterable[bytes], images: Iterable[str]) -> None:
        for image, digest in zip(images, digests, strict=True):
            self._key.update(os.fsencode(image) + b"\0" + digest + b"\0")

    def text(self) -> str:
        return self._key.hexdigest()


def yolo_key(images: list[str], settings: str) -> tuple[str, bool]:
    """The key of labels as they are, and whether there is a label file at all."""
    key, found = YoloKey(settings), False
    for some in _chunks(images):
        digests = label_digests(some)
        found = found or any(digest != NO_LABEL_FILE for digest in digests)
        key.add(digests, some)
    return key.text(), found


def read_yolo(images: list[str], classes: Classes, single_cls: bool, settings: str, look: Look) -> Reading:
    parts, stamps, key = list[ImageIndex](), list[Ints](), YoloKey(settings)
    of_images, of_labels = list[Fault](), list[Fault]()
    nc = None if single_cls else len(classes.names)
    for some in _chunks(images):
        stamps.append(file_stamps(some))
        sizes, found = read_image_facts(some, stamps[-1], look)
        files = in_threads(lambda image: _read_label_file(image, nc), some)
        for (_, rows), size in zip(files, sizes, strict=True):
            rows.note_tiny_boxes(size)
        key.add([digest for digest, _ in files], some)
        of_images += found
        of_labels += [fault for _, rows in files for fault in rows.all_faults()]
        parts.append(build_index([rows for _, rows in files], sizes, classes, np.zeros(len(some), np.int64)))
    index = replace(joined(parts), image_ids=_image_ids(images))
    if single_cls:
        index.labels[:] = 0
    return Reading(index, of_images + of_labels, np.concatenate(stamps), key.text())


def _chunks(images: list[str]) -> Iterator[list[str]]:
    return (images[first : first + CHUNK] for first in range(0, len(images), CHUNK))


def _read_label_file(image: str, nc: int | None) -> tuple[bytes, ImageRows]:
    """The digest of the text, and what it says."""
    path = label_path(image)
    file = read_label(path)
    rows = ImageRows(path, image)
    if file.digest == NO_LABEL_FILE:
        fix = f"put its labels into {path}; an empty file says that it shows nothing"
        rows.note(FaultKind.NO_LABEL, f"missing, so {image} counts as background", fix, fatal=False)
    elif file.text is None:
        what = f"not a readable text file: {file.reason}"
        rows.note(FaultKind.UNREADABLE_LABEL, what, file.fix)
    else:
        rows = parse_labels(file.text, nc, path, image)
    return file.digest, rows


def read_label(path: str) -> LabelText:
    """The whole text of a label file."""
    try:
        content = read_bounded(path, _MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return LabelText(NO_LABEL_FILE)
    except OSError as error:
        fix = "check its permissions" if isinstance(error, PermissionError) else "check the file and the disk"
        return LabelText(_UNREADABLE, reason=error.strerror or str(error), fix=fix)
    digest = hashlib.blake2b(content, digest_size=16).digest()
    try:
        return LabelText(digest, content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return LabelText(digest, reason=str(error))


def _image_ids(images: list[str]) -> Ints:
    """The number an image is named by, as in COCO, if all are named by different ones; else its position."""
    numbers = np.empty(len(images), np.int64)
    for place, image in enumerate(images):
        stem = os.path.splitext(os.path.basename(image))[0]
        if not (stem.isdecimal() and stem.isascii() and len(stem) <= _MAX_DIGITS):
            return np.arange(len(images), dtype=np.int64)
        numbers[place] = int(stem)
    different = bool(np.diff(np.sort(numbers)).all())
    return numbers if different else np.arange(len(images), dtype=np.int64)
