"""An export of Roboflow, whichever form was chosen there: YOLO, COCO, Pascal VOC, or TensorFlow's CSV.

Its splits are the folders train, valid and test. A picture and its augmented copies have one name before `.rf.`, and
are one group when the data set is divided anew.
"""

import csv
import os
from pathlib import Path

from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats import coco, voc, yolo
from yolofast.dataset.formats.labelled import Labelled, LabelledImage, LabelledObject, box_of, whole_size
from yolofast.dataset.formats.places import ImagePlaces, files_ending, root_of, split_of
from yolofast.dataset.formats.recognise import Evidence
from yolofast.dataset.yolo_labels import RowError
from yolofast.errors import UserError
from yolofast.files.budget import opened_text

_READMES = ("README.roboflow.txt", "README.dataset.txt")
_COCO, _CSV = "_annotations.coco.json", "_annotations.csv"
_COLUMNS = ("filename", "width", "height", "class", "xmin", "ymin", "xmax", "ymax")


def recognise(evidence: Evidence) -> str | None:
    named = evidence.called(_COCO, _CSV, *_READMES)
    return ", ".join(named[:3]) if named else None


def read(place: Path, images: ImagePlaces, found: Labelled) -> None:
    if place.is_file() and place.suffix.lower() not in (".csv", ".xml", ".json"):
        yolo.read(place, images, found)
        return
    if place.is_dir() and any(place.glob("*.yaml")):
        yolo.read(place, images, found)
    elif any(os.path.basename(path) == _COCO for path in files_ending(place, ".json")):
        coco.read(place, images, found)
    elif tables := [path for path in files_ending(place, ".csv") if os.path.basename(path) == _CSV]:
        for path in tables:
            _read_table(path, root_of(place), images, found)
    elif files_ending(place, ".xml"):
        voc.read(place, images, found)
    else:
        yolo.read(place, images, found)


def _read_table(path: str, root: Path, images: ImagePlaces, found: Labelled) -> None:
    by_name: dict[str, LabelledImage] = {}
    try:
        with opened_text(path, newline="") as file:
            reader = csv.DictReader(file)
            if not set(_COLUMNS) <= set(reader.fieldnames or ()):
                what = f"has other columns than {', '.join(_COLUMNS)}"
                raise UserError(what, where=path, line=1, fix="export it again as TensorFlow object detection CSV")
            for row in reader:
                _add_row(row, path, reader.line_num, root, images, by_name, found)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot be read: {error}", where=path, fix="export it again") from None
    found.images += by_name.values()


def _add_row(
    row: dict[str, str], path: str, line: int, root: Path, images: ImagePlaces, by_name: dict[str, LabelledImage],
    found: Labelled,
) -> None:  # fmt: skip
    name = row["filename"] or ""
    if name not in by_name:
        file = images.find(name, path)
        if file is None:
            found.note_missing(name, path, line)
            return
        stated = whole_size(row["width"] or "", row["height"] or "")
        by_name[name] = LabelledImage(file, path, stated, split=split_of(file, root))
    image = by_name[name]
    try:
        if not row["class"]:
            raise RowError(FaultKind.UNKNOWN_CLASS, "the row has no class", "correct or remove the row")
        box = box_of((row[corner] or "" for corner in _COLUMNS[4:]), " ".join(_COLUMNS[4:]))
        image.objects.append(LabelledObject(row["class"], box, [], line))
    except RowError as error:
        found.note_row(error, path, line, image.file)
