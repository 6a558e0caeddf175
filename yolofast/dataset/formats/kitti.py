"""KITTI's object detection, and what follows its form: `label_2/000001.txt` for `image_2/000001.png`.

A row is type, truncated, occluded, alpha, left, top, right, bottom and seven values in 3-D, which are not used. Regions
called DontCare are no objects and are left out. `training` holds all that is labelled, so it is divided unless `val`
is there.
"""

import re
from pathlib import Path

from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.labelled import Labelled, LabelledImage, LabelledObject, box_of
from yolofast.dataset.formats.places import ImagePlaces, label_files, read_rows, root_of, split_of
from yolofast.dataset.formats.recognise import Evidence
from yolofast.dataset.yolo_labels import RowError, finite_number
from yolofast.words import counted

_COLUMNS = (15, 16)
"""The last one of 16 is a score."""
_OF_TRACKS = (17, 18)
_LARGELY_OCCLUDED, _LARGELY_TRUNCATED = 2, 0.5
_NO_OBJECT = "DontCare"
_NAMES = ("Car", "Van", "Truck", "Pedestrian", "Person_sitting", "Cyclist", "Tram", "Misc")
_ROW = re.compile(r"[A-Za-z][\w-]*( -?[0-9.]+(e-?\d+)?){14,15}\s*")


def recognise(evidence: Evidence) -> str | None:
    files = evidence.ending(".txt")
    files = [name for name in files if "label" in name.lower()] or files  # others are `calib`
    own = any(rows and all(map(_ROW.fullmatch, rows[:3])) for rows in map(evidence.rows, files[:5]))
    return evidence.counted(files, "label file") if own else None


def read(place: Path, images: ImagePlaces, found: Labelled) -> None:
    root = root_of(place)
    for path, image in label_files(place, images, found, "label"):
        one = LabelledImage(image, path, split=split_of(path, root))
        for line, fields in read_rows(path, image, found):
            try:
                _add(fields, line, one, found)
            except RowError as error:
                found.note_row(error, path, line, image)
        found.images.append(one)
    used = {one.name for image in found.images for one in image.objects}
    found.names += [name for name in _NAMES if name in used]


def _add(fields: list[str], line: int, image: LabelledImage, found: Labelled) -> None:
    if len(fields) not in _COLUMNS:
        of_tracks = "; these are KITTI's tracks, which have a frame and an identity" * (len(fields) in _OF_TRACKS)
        what = f"{counted(len(fields), 'value')} instead of {_COLUMNS[0]}{of_tracks}"
        raise RowError(FaultKind.COLUMNS, what, "write type truncated occluded alpha left top right bottom and 3-D")
    name, truncated, occluded = fields[0], finite_number(fields[1]), finite_number(fields[2])
    if name == _NO_OBJECT:
        found.dropped[f"regions called {_NO_OBJECT}"] += 1
        return
    marks = {"truncated": truncated > _LARGELY_TRUNCATED, "occluded": occluded >= _LARGELY_OCCLUDED}
    box = box_of(fields[4:8], "left top right bottom")
    image.objects.append(LabelledObject(name, box, [], line, frozenset(mark for mark, is_so in marks.items() if is_so)))
