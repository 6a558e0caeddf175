"""A split labelled by a COCO annotation file.

Boxes are shares of the size the file states for an image, so images shrunk after they were annotated need no new file.
They are clipped to the image; one without area in it is omitted, and one that repeats another counts once. Categories
are matched with the classes of the data yaml by name if possible, else in the order of their ids.
"""

import hashlib
import os
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.dataset.coco_document import (
    BadEntryError,
    CocoDocument,
    CocoImage,
    image_folder,
    match_images,
    parse_coco,
    pixel_box,
    polygon_points,
)
from yolofast.dataset.data_yaml import DataYaml
from yolofast.dataset.faults import Fault, FaultKind
from yolofast.dataset.image_facts import Look, file_stamps, read_image_facts
from yolofast.dataset.index_cache import SINGLE_CLASS, Box, Classes, ImageRows, Reading, build_index
from yolofast.dataset.listing import Listing, first_share
from yolofast.errors import UserError, shorten
from yolofast.files.known_numbers import as_id
from yolofast.image_index import Ints

_OVERSHOOT_PX = 1.0  # less is how annotation tools round
_OTHER_SHAPE = 0.03
_FIX_OUTSIDE = "check its bbox, [x, y, width, height] in pixels, and the width and height of the image in the file"
_FIX_NO_AREA = "draw it again, or remove the annotation"
_FIX_ENTRY = "write its bbox as [x, y, width, height] and polygons as [x1, y1, x2, y2, …], or remove the annotation"
_Annotations = dict[int, list[dict[str, Any]]]
_SHOWN_IDS = 8
_NOT_IN_FILE = -1
"""The category id of a class that the annotation file does not have."""


def image_rows(
    image: CocoImage, path: str, size: Ints, annotations: list[dict[str, Any]], class_of: dict[int, int], file: Path
) -> ImageRows:
    """`size` is that of the image on disk; boxes refer to the size the file states, if it does."""
    rows = ImageRows(str(file), path)
    compare_shapes(rows, image.size, size)
    stated = image.size or (int(size[0]), int(size[1]))
    if not all(stated):  # an image that cannot be read has its own fault
        return rows
    for annotation in annotations:
        name = f"annotation {shorten(annotation.get('id'))} of {image.file_name}"
        category = as_id(annotation.get("category_id"))
        if category is None or category not in class_of:
            what = f"{name} has the category {shorten(annotation.get('category_id'))}, which is none of the classes"
            fix = f"give it one of the category ids {shorten(sorted(class_of))}, or add its category to the file"
            rows.note(FaultKind.UNKNOWN_CLASS, what, fix)
            continue
        try:
            _add(rows, name, annotation, class_of[category], stated)
        except BadEntryError as error:
            rows.note(FaultKind.BAD_ANNOTATION, f"{name} cannot be used: {error}", _FIX_ENTRY)
    rows.note_tiny_boxes(size)
    return rows


def _add(rows: ImageRows, name: str, annotation: dict[str, Any], label: int, size: tuple[int, int]) -> None:
    polygon = polygon_points(annotation)
    box, overshoot = _clipped_shares(pixel_box(annotation), size)
    if overshoot > _OVERSHOOT_PX:
        what, fix = f"{name} reaches out of the image by {overshoot:.3g} pixels; it is clipped", _FIX_OUTSIDE
        rows.note(FaultKind.OUT_OF_RANGE, what, fix, fatal=False)
    if box[2] <= 0 or box[3] <= 0:
        rows.note(FaultKind.TINY_BOX, f"{name} has no area in the image; it is left out", _FIX_NO_AREA, fatal=False)
    elif any(box == other and label == known for other, known in zip(rows.boxes, rows.labels, strict=True)):
        rows.note(FaultKind.DUPLICATE_ROW, f"{name} repeats another; it counts once", "remove one of them", fatal=False)
    else:
        shares = [min(max(value / size[i % 2], 0.0), 1.0) for i, value in enumerate(polygon)]
        rows.add(label, box, shares, (None, name), crowd=annotation.get("iscrowd") == 1)


def _clipped_shares(box: Box, size: tuple[int, int]) -> tuple[Box, float]:
    """cx, cy, w, h as shares of the image, and by how many pixels the box reached out of it."""
    x, y, w, h = box
    left, top, right, bottom = max(x, 0.0), max(y, 0.0), min(x + w, float(size[0])), min(y + h, float(size[1]))
    overshoot = max(left - x, top - y, x + w - right, y + h - bottom)
    centre = (left + right) / 2 / size[0], (top + bottom) / 2 / size[1]
    return (*centre, (right - left) / size[0], (bottom - top) / size[1]), overshoot


def compare_shapes(rows: ImageRows, stated: tuple[int, int] | None, size: Ints) -> None:
    """An image of another shape than the file states was probably rotated or cropped after it was annotated."""
    if stated is None or not size.all():
        return
    width, height = (int(side) for side in size)
    # Rounding a side to whole pixels when images are shrunk changes the shape too, of small ones noticeably.
    slack = _OTHER_SHAPE + 1 / min(width, height)
    if abs(stated[0] * height / (stated[1] * width) - 1) > slack:
        what = f"states {stated[0]}×{stated[1]} for {rows.image}, which is {width}×{height} as shown"
        fix = "correct width and height in the file, or turn the image back"
        rows.note(FaultKind.BAD_ANNOTATION, what, fix, fatal=False)


def match_classes(document: CocoDocument, data: DataYaml, path: Path) -> tuple[dict[int, int], Classes]:
    """Category id -> class, and the classes."""
    if data.names is not None and (class_of := _match_by_name(document, data.names)) is not None:
        id_of = {place: category for category, place in reversed(class_of.items())}
        ids = [id_of.get(place, _NOT_IN_FILE) for place in range(len(data.names))]
        return class_of, Classes(data.names, np.array(ids, dtype=np.int64))
    categories = document.categories
    if data.nc is not None and len(categories) != data.nc:
        known = shorten(list(categories.values()))
        what = f"has {len(categories)} categories, {known}, which are not the {data.nc} classes of the data yaml"
        raise UserError(what, where=path, fix="give names in the data yaml as the categories are called")
    if not categories:
        raise UserError("has no categories", where=path, fix="export it again, or give names in the data yaml")
    class_of = {category: place for place, category in enumerate(categories)}
    return class_of, Classes(data.names or tuple(categories.values()), np.array(list(categories), dtype=np.int64))


def _match_by_name(document: CocoDocument, names: tuple[str, ...]) -> dict[int, int] | None:
    """None if a category in use has a name that the yaml does not know; unused ones, such as a root, do not matter."""
    place = {name: i for i, name in reversed(list(enumerate(names)))}
    class_of = {category: place[name] for category, name in document.categories.items() if name in place}
    # Where this is None, the annotation has a fault of its own.
    in_use = {as_id(annotation.get("category_id")) for annotation in document.annotations}
    unknown = document.categories.keys() - class_of.keys()
    return class_of if class_of and not in_use & unknown else None


def coco_key(path: Path, content: bytes, listing: Listing | None, settings: str) -> str:
    """Names everything the labels depend on: the file, the images chosen from it, and how they are read."""
    digest = hashlib.blake2b(content, digest_size=20).hexdigest()
    key = hashlib.blake2b(f"{settings}\n{digest}\n".encode(), digest_size=20)
    key.update(os.fsencode(path))
    for image in [] if listing is None else listing.images:
        key.update(b"\0" + os.fsencode(image))
    return key.hexdigest()


def read_coco(
    path: Path, content: bytes, listing: Listing | None, data: DataYaml, single_cls: bool, fraction: float, key: str,
    look: Look,
) -> Reading:  # fmt: skip
    """`listing` are the images the data yaml names in addition; without it they are looked for near the file."""
    document = parse_coco(content, path)
    class_of, classes = match_classes(document, data, path)
    if single_cls:
        class_of, classes = dict.fromkeys(class_of, 0), SINGLE_CLASS
    pairs = locate_images(document, path, listing)
    pairs = pairs[: first_share(len(pairs), fraction)]
    images = [image for _, image in pairs]
    stamps = file_stamps(images)
    sizes, image_faults = read_image_facts(images, stamps, look)
    by_image, unmatched = annotations_by_image(document)
    rows = [
        image_rows(entry, image, size, by_image[entry.id], class_of, path)
        for (entry, image), size in zip(pairs, sizes, strict=True)
    ]
    ids = np.array([entry.id for entry, _ in pairs], dtype=np.int64)
    faults = [
        *(_name_the_file(fault, path) for fault in image_faults),
        *_repeated_images(pairs, path),
        *unmatched_faults(unmatched, document, path),
        *repeated_ids(document, path),
        *(fault for one in rows for fault in one.all_faults()),
    ]
    return Reading(build_index(rows, sizes, classes, ids, path), faults, stamps, key)


def locate_images(document: CocoDocument, path: Path, listing: Listing | None) -> list[tuple[CocoImage, str]]:
    """Entries of the file and the images they mean; one that a list file does not name is not part of the split."""
    names = [image.file_name for image in document.images]
    if listing is None:
        folder = image_folder(path, names)
        return [(image, os.path.normpath(folder / image.file_name)) for image in document.images]
    folder_of_missing = next((source for source in listing.sources if source.is_dir()), None)
    return [
        (image, found or os.path.normpath(f"{folder_of_missing}/{image.file_name}"))
        for image, found in zip(document.images, match_images(names, listing.images), strict=True)
        if found is not None or folder_of_missing is not None
    ]


def annotations_by_image(document: CocoDocument) -> tuple[_Annotations, list[dict[str, Any]]]:
    """And those of images that the file does not list."""
    known = {image.id for image in document.images}
    by_image: _Annotations = defaultdict(list)
    unmatched = []
    for annotation in document.annotations:
        image = as_id(annotation.get("image_id"))
        if image is not None and image in known:
            by_image[image].append(annotation)
        else:
            unmatched.append(annotation)
    return by_image, unmatched


def unmatched_faults(unmatched: list[dict[str, Any]], document: CocoDocument, path: Path) -> list[Fault]:
    if not unmatched:
        return []
    ids = list(dict.fromkeys(shorten(annotation.get("image_id")) for annotation in unmatched))
    named = ", ".join(ids[:_SHOWN_IDS]) + (", …" if len(ids) > _SHOWN_IDS else "")
    listed = shorten([image.id for image in document.images])
    what = (
        f"{len(unmatched):,} of {len(document.annotations):,} annotations are of images that the file does not list; "
        f"their image_id is {named}, the images are {listed}"
    )
    fix = "correct image_id, or add the images, or remove these annotations"
    return [Fault(kind=FaultKind.NO_IMAGE, where=str(path), what=what, fix=fix)]


def _repeated_images(pairs: list[tuple[CocoImage, str]], path: Path) -> list[Fault]:
    """Two entries for one file: its boxes are spread over both, and each lacks the other's."""
    first: dict[str, CocoImage] = {}
    faults = []
    for image, found in pairs:
        if (earlier := first.setdefault(found, image)) is not image:
            what = f"the images {earlier.id} and {image.id} are both {found}; it counts twice"
            fix = "join the entries, and give all its annotations one image_id"
            kind = FaultKind.LISTED_TWICE
            faults.append(Fault(kind=kind, where=str(path), what=what, fix=fix, fatal=False, image=found))
    return faults


def repeated_ids(document: CocoDocument, path: Path) -> list[Fault]:
    counts = Counter(as_id(annotation.get("id")) for annotation in document.annotations)
    repeated = [one for one, count in counts.items() if one is not None and count > 1]
    if not repeated:
        return []
    ids = "annotation id is" if len(repeated) == 1 else "annotation ids are"
    what = f"{len(repeated):,} {ids} used more than once: {shorten(repeated)}"
    fix = "number the annotations anew; evaluation tools take equal ids for one object"
    return [Fault(kind=FaultKind.BAD_ANNOTATION, where=str(path), what=what, fix=fix, fatal=False)]


def _name_the_file(fault: Fault, path: Path) -> Fault:
    """A missing image is a matter between the file and the folder; the message has to name both."""
    if fault.kind is not FaultKind.MISSING_IMAGE:
        return fault
    fix = "restore it; or name the images' folder as the split, and the COCO file under `annotations:`"
    return replace(fault, what=f"no such image, but {path} lists it", fix=fix)
