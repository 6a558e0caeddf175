"""Open Images: CSV files of boxes, `train-annotations-bbox.csv` and the like, for images that are named by their id.

Boxes are shares of the image. Most people have some of the millions of images, so rows of others are only counted; an
image without a row was not annotated, and is left out. Classes are codes (`/m/0k4j`), whose names are in
`class-descriptions-boxable.csv` or `classes.csv`. A box around a group is marked as a crowd.
"""

import csv
import os
from collections.abc import Iterator
from pathlib import Path

from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.labelled import SHARES, Labelled, LabelledImage, LabelledObject, box_of
from yolofast.dataset.formats.places import ImagePlaces, files_ending, root_of, split_of, split_word
from yolofast.dataset.formats.recognise import Evidence
from yolofast.dataset.yolo_labels import RowError
from yolofast.errors import UserError, shorten
from yolofast.files.budget import opened_text
from yolofast.runs.table import csv_rows
from yolofast.words import counted

_NEEDED = ("ImageID", "LabelName", "XMin", "XMax", "YMin", "YMax")
_CORNERS = ("XMin", "YMin", "XMax", "YMax")
_MARKS = {"IsOccluded": "occluded", "IsTruncated": "truncated", "IsGroupOf": "crowd", "IsDepiction": "depiction"}
_CODE = ("/m/", "/g/", "/t/")


def recognise(evidence: Evidence) -> str | None:
    files = [name for name in evidence.ending(".csv") if _is_header(evidence.head(name, 500).split("\n")[0])]
    return ", ".join(files[:3]) if files else None


def _is_header(line: str) -> bool:
    return set(_NEEDED) <= set(line.strip().lstrip("\ufeff").split(","))


def read(place: Path, images: ImagePlaces, found: Labelled) -> None:
    root = root_of(place)
    tables = [path for path in files_ending(place, ".csv") if _is_header(_first_line(path))]
    names = _descriptions(root)
    by_id: dict[str, LabelledImage] = {}
    elsewhere: set[str] = set()
    for path in tables:
        for line, row in _rows(path):
            image = by_id.get(row["ImageID"])
            if image is None:
                file = images.of_stem(row["ImageID"], path)
                if file is None:
                    elsewhere.add(row["ImageID"])
                    continue
                split = split_of(file, root) or split_word(os.path.basename(path))
                image = by_id[row["ImageID"]] = LabelledImage(file, path, SHARES, split=split)
            try:
                image.objects.append(_object(row, line, names))
            except RowError as error:
                found.note_row(error, path, line, image.file)
    found.images += by_id.values()
    if elsewhere:
        found.dropped["images of the CSV files that are not here"] += len(elsewhere)


def _object(row: dict[str, str], line: int, names: dict[str, str]) -> LabelledObject:
    code = row["LabelName"]
    if not code:
        raise RowError(FaultKind.UNKNOWN_CLASS, "the row has no LabelName", "correct or remove the row")
    marks = frozenset(mark for column, mark in _MARKS.items() if (row.get(column) or "").strip() == "1")
    box = box_of((row[corner] for corner in _CORNERS), " ".join(_CORNERS))
    return LabelledObject(names.get(code, code), box, [], line, marks)


def _rows(path: str) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with opened_text(path, newline="") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            for fields in reader:
                if len(fields) == len(header):
                    yield reader.line_num, dict(zip(header, fields, strict=True))
                elif fields:
                    what = f"{counted(len(fields), 'value')} instead of {len(header)}"
                    raise UserError(what, where=path, line=reader.line_num, fix="download the file again")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot be read: {error}", where=path, fix="download the file again") from None


def _first_line(path: str) -> str:
    try:
        with opened_text(path, errors="replace") as file:
            return file.readline(2000)
    except OSError:
        return ""


def _descriptions(root: Path) -> dict[str, str]:
    """Code -> name, from all files of two columns whose first is a code."""
    names: dict[str, str] = {}
    for path in files_ending(root, ".csv"):
        if not _first_line(path).lstrip("\ufeff").startswith((*_CODE, "LabelName,DisplayName")):
            continue
        with opened_text(path, errors="replace", newline="") as file:
            for fields in csv_rows(file):
                if len(fields) == 2 and fields[0].startswith(_CODE):
                    names[fields[0]] = fields[1].strip() or shorten(fields[0])
    return names
