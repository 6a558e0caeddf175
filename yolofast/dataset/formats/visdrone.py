"""VisDrone's object detection: `annotations/x.txt` for `images/x.jpg`, in folders such as `VisDrone2019-DET-train`.

A row is left, top, width, height, score, category, truncation and occlusion, with commas between. Ignored regions
(category 0 or score 0) and "others" (category 11) are left out, as in its evaluation.
"""

import re
from pathlib import Path

from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.labelled import Labelled, LabelledImage, LabelledObject
from yolofast.dataset.formats.places import ImagePlaces, label_files, read_rows, root_of, split_of
from yolofast.dataset.formats.recognise import Evidence
from yolofast.dataset.yolo_labels import RowError, finite_number
from yolofast.words import counted

NAMES = (
    "pedestrian", "people", "bicycle", "car", "van", "truck", "tricycle", "awning-tricycle", "bus", "motor",
)  # fmt: skip
_COLUMNS, _OF_VIDEOS = 8, 10
_IGNORED, _OTHERS = 0, 11
_HEAVILY_OCCLUDED = 2
_ROW = re.compile(r"(-?\d+,){7}-?\d+,?\s*")


def recognise(evidence: Evidence) -> str | None:
    files = evidence.ending(".txt")
    looked = [name for name in files if "annotation" in name.lower()][:5] or files[:5]
    own = any(rows and all(map(_ROW.fullmatch, rows[:3])) for rows in map(evidence.rows, looked))
    return evidence.counted(files, "label file") if own else None


def read(place: Path, images: ImagePlaces, found: Labelled) -> None:
    root = root_of(place)
    for path, image in label_files(place, images, found, "annotation"):
        one = LabelledImage(image, path, split=split_of(path, root))
        for line, fields in read_rows(path, image, found, comma=True):
            try:
                _add(fields, line, one, found)
            except RowError as error:
                found.note_row(error, path, line, image)
        found.images.append(one)
    found.names += NAMES


def _add(fields: list[str], line: int, image: LabelledImage, found: Labelled) -> None:
    if len(fields) != _COLUMNS:
        of_videos = "; these are its videos, which have a frame and an identity" * (len(fields) == _OF_VIDEOS)
        what = f"{counted(len(fields), 'value')} instead of {_COLUMNS}{of_videos}"
        fix = "write left,top,width,height,score,category,truncation,occlusion"
        raise RowError(FaultKind.COLUMNS, what, fix)
    left, top, width, height, score, category, truncation, occlusion = map(finite_number, fields)
    if category == _IGNORED or score == 0:
        found.dropped["ignored regions"] += 1
        return
    if category == _OTHERS:
        found.dropped["objects of the category others"] += 1
        return
    if category not in range(1, len(NAMES) + 1):
        what = f"category {fields[5]} is not a whole number from {_IGNORED} to {_OTHERS}"
        raise RowError(FaultKind.UNKNOWN_CLASS, what, "correct the row")
    if width < 0 or height < 0:
        raise RowError(FaultKind.BAD_BOX, f"the box is {width:g}×{height:g} pixels", "correct or remove the row")
    marks = {"truncated": truncation > 0, "occluded": occlusion >= _HEAVILY_OCCLUDED}
    held = frozenset(mark for mark, is_so in marks.items() if is_so)
    box = left, top, left + width, top + height
    image.objects.append(LabelledObject(NAMES[int(category) - 1], box, [], line, held))
