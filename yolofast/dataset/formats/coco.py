"""COCO files: `annotations/instances_train2017.json`, `train/_annotations.coco.json`, or one that is named.

A file's split is in its name or its folder's. Files of captions, key points and the like, which lie beside those of
boxes, are passed over. Outlines keep their parts, and run-length masks are kept for COCO. Frames of a video
are a group.
"""

import os
import re
from pathlib import Path
from typing import Any

from yolofast.dataset.coco_document import (
    BadEntryError,
    CocoDocument,
    CocoImage,
    as_number,
    open_coco,
    parse_coco,
    pixel_box,
    polygon_parts,
)
from yolofast.dataset.coco_labels import annotations_by_image, repeated_ids, unmatched_faults
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.labelled import NO_MARKS, Labelled, LabelledImage, LabelledObject
from yolofast.dataset.formats.places import ImagePlaces, files_ending, root_of, split_of, split_word
from yolofast.dataset.formats.recognise import Evidence
from yolofast.errors import UserError, shorten
from yolofast.files.known_numbers import as_id

_OTHER_FILES = ("captions_", "person_keypoints_", "stuff_", "panoptic_", "image_info_")
_FIX = "write its bbox as [x, y, width, height] and polygons as [x1, y1, x2, y2, …], or remove the annotation"
_CROWD = frozenset({"crowd"})
_HEAD, _WHOLE = 2**16, 2**26
_OF_DATUMARO = re.compile(r'"items"\s*:\s*\[')
"""Its files have categories and annotations as well."""


def recognise(evidence: Evidence) -> str | None:
    if evidence.data_yamls():
        return None  # which says what is read, be it these files or labels beside them
    files = [name for name in _candidates(evidence.ending(".json"))[:8] if _is_coco(evidence, name)]
    return ", ".join(files[:3]) if files else None


def _is_coco(evidence: Evidence, name: str) -> bool:
    """The three lists may come in any order, and each may be long."""
    head = evidence.head(name, _HEAD)
    if not head.lstrip("\ufeff \t\r\n").startswith("{") or _OF_DATUMARO.search(head):
        return False
    words = '"images"', '"annotations"', '"categories"'
    if sum(word in head for word in words) >= 2 and '"shapes"' not in head:
        return True
    return any(word in head for word in words) and all(word in evidence.head(name, _WHOLE) for word in words)


def _candidates(names: list[str]) -> list[str]:
    """Those of boxes, where there are others too."""
    boxes = [name for name in names if os.path.basename(name).startswith("instances_")]
    return boxes or [name for name in names if not os.path.basename(name).startswith(_OTHER_FILES)]


def read(place: Path, images: ImagePlaces, found: Labelled) -> None:
    root = root_of(place)
    files = [str(place.resolve())] if place.is_file() else _candidates(files_ending(place, ".json"))
    for path in files:
        try:
            document = parse_coco(open_coco(Path(path)), Path(path))
        except UserError as error:
            found.note_refusal(error, path)
            continue
        split = split_word(os.path.splitext(os.path.basename(path))[0]) or split_of(path, root)
        names, pairs = _names(document), []
        for entry in document.images:
            file = images.find(entry.file_name, path)
            if file is None:
                found.note_missing(entry.file_name, path)
            else:
                pairs.append((entry, file))
        add_document(document, path, split, names, pairs, found)
        for category, name in names.items():
            found.coco_ids.setdefault(name, category)
    ordered = sorted(found.coco_ids, key=lambda name: found.coco_ids[name])
    found.names += ordered


def _names(document: CocoDocument) -> dict[int, str]:
    """Without the root that Roboflow puts before its categories, and which no annotation has."""
    used = {as_id(one.get("category_id")) for one in document.annotations}
    first = min(document.categories, default=0)
    is_root = first == 0 and len(document.categories) > 1 and 0 not in used and 0 in document.roots
    return {category: name for category, name in document.categories.items() if category or not is_root}


def add_document(
    document: CocoDocument,
    path: str,
    split: str,
    names: dict[int, str],
    pairs: list[tuple[CocoImage, str]],
    found: Labelled,
) -> None:
    """The images and objects of one file. `names` are the classes by category, `pairs` entries and image files."""
    by_image, unmatched = annotations_by_image(document)
    found.faults += [*unmatched_faults(unmatched, document, Path(path)), *repeated_ids(document, Path(path))]
    for entry, file in pairs:
        group = "" if entry.video is None else f"video {entry.video} of {path}"
        image = LabelledImage(file, path, entry.size, split=split, group=group)
        for annotation in by_image[entry.id]:
            called = f"annotation {shorten(annotation.get('id'))} of {entry.file_name}"
            try:
                image.objects.append(_object(annotation, names, called))
            except BadEntryError as error:
                what = f"{called} cannot be used: {error}"
                found.note(FaultKind.BAD_ANNOTATION, path, what, _FIX, image=file)
        found.images.append(image)


def _object(annotation: dict[str, Any], names: dict[int, str], called: str) -> LabelledObject:
    category = as_id(annotation.get("category_id"))
    if category is None or category not in names:
        raise BadEntryError(f"its category is {shorten(annotation.get('category_id'))}, which is none of the file's")
    x, y, width, height = pixel_box(annotation)
    mask = annotation.get("segmentation")
    return LabelledObject(
        names[category],
        (x, y, x + width, y + height),
        polygon_parts(annotation),
        None,
        _CROWD if annotation.get("iscrowd") == 1 else NO_MARKS,
        mask if isinstance(mask, dict) else None,
        as_number(annotation.get("area")),
        called,
    )
