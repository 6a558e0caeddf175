"""LabelMe: a JSON file for each image, with its outlines and boxes.

Outlines of one label and `group_id` are the parts of one object, as LabelMe's own converters have it. A rectangle may
have its corners in any order. Lines and points have no area and are left out; of a mask the box is kept. An image
without a file was not annotated.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yolofast.dataset.coco_document import as_number, load_json
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.labelled import Labelled, LabelledImage, LabelledObject, PixelBox, box_around
from yolofast.dataset.formats.places import ImagePlaces, files_ending, root_of, split_of
from yolofast.dataset.formats.recognise import Evidence
from yolofast.dataset.yolo_labels import RowError
from yolofast.errors import UserError, shorten
from yolofast.files.threads import in_threads

_HEAD = 2**16
_WITHOUT_AREA = ("line", "linestrip", "point", "points")
_FIX = "draw it again in LabelMe, or remove the shape"


def recognise(evidence: Evidence) -> str | None:
    files = evidence.ending(".json")
    # The picture itself may stand before the path, in base64, and fill the whole head.
    own = [name for name in files[:5] if '"shapes"' in (head := evidence.head(name, _HEAD)) and '"flags"' in head]
    return evidence.counted(files, "JSON file") if own else None


@dataclass
class _File:
    path: str
    image: str = ""
    size: tuple[int, int] | None = None
    objects: list[LabelledObject] = field(default_factory=list)
    faults: list[RowError] = field(default_factory=list)
    without_area: int = 0
    masks: int = 0
    holds_image: bool = False
    refusal: UserError | None = None
    is_labelme: bool = True


def read(place: Path, images: ImagePlaces, found: Labelled) -> None:
    root, annotated = root_of(place), 0
    for file in in_threads(_read_file, files_ending(place, ".json")):
        if file.refusal is not None:
            found.note_refusal(file.refusal, file.path)
            continue
        if not file.is_labelme:
            found.dropped["JSON files that are not of LabelMe"] += 1
            continue
        stem = os.path.splitext(os.path.basename(file.path))[0]
        image = images.of_stem(stem, file.path) or (images.find(file.image, file.path) if file.image else None)
        if image is None:
            _note_missing(found, file, stem)
            continue
        annotated += 1
        for error in file.faults:
            found.note_row(error, file.path, None, image)
        if file.without_area:
            found.dropped["lines and points, which have no area"] += file.without_area
        if file.masks:
            found.dropped["outlines of masks, whose boxes are kept"] += file.masks
        found.images.append(LabelledImage(image, file.path, file.size, file.objects, split_of(image, root)))
    if len(images) > annotated:
        found.dropped["images without a JSON file, which were not annotated"] += len(images) - annotated


def _note_missing(found: Labelled, file: _File, stem: str) -> None:
    if not file.holds_image:
        found.note_missing(file.image or stem, file.path)
        return
    what = f"there is no image {shorten(file.image or stem)} near it; the one inside (imageData) is not read"
    fix = "put the image beside the file, name the folder of the images with --images DIR, or --skip-bad"
    found.note(FaultKind.MISSING_IMAGE, file.path, what, fix)


def _read_file(path: str) -> _File:
    try:
        content = load_json(Path(path))
    except UserError as error:
        return _File(path, refusal=error)
    if not isinstance(content, dict) or not isinstance(content.get("shapes"), list):
        return _File(path, is_labelme=False)
    name = content.get("imagePath")
    width, height = content.get("imageWidth"), content.get("imageHeight")
    stated = (width, height) if isinstance(width, int) and isinstance(height, int) and width and height else None
    file = _File(path, name if isinstance(name, str) else "", stated)
    file.holds_image = bool(content.get("imageData"))
    groups: dict[tuple[str, str], LabelledObject] = {}
    for number, shape in enumerate(content["shapes"]):
        try:
            _add(shape, number, file, groups)
        except RowError as error:
            file.faults.append(error)
    return file


def _add(shape: Any, number: int, file: _File, groups: dict[tuple[str, str], LabelledObject]) -> None:
    called = f"shapes[{number}]"
    if not isinstance(shape, dict) or not isinstance(shape.get("label"), str) or not shape["label"]:
        raise RowError(FaultKind.UNKNOWN_CLASS, f"{called} has no label", _FIX)
    label, kind = shape["label"], shape.get("shape_type") or "polygon"
    if kind in _WITHOUT_AREA:
        file.without_area += 1
        return
    points = _points(shape.get("points"), called)
    box, parts = _area(kind, points, called)
    file.masks += kind == "mask"
    group = shape.get("group_id")
    if parts and group is not None and (first := groups.get((label, str(group)))) is not None:
        first.parts += parts
        first.box = box_around([value for part in first.parts for value in part])
        return
    one = LabelledObject(label, box, parts, id=called)
    file.objects.append(one)
    if parts and group is not None:
        groups[label, str(group)] = one


def _points(points: Any, called: str) -> list[float]:
    if not isinstance(points, list):
        raise RowError(FaultKind.BAD_ANNOTATION, f"{called} has no points", _FIX)
    found = []
    for point in points:
        pair = [as_number(value) for value in point] if isinstance(point, list) and len(point) == 2 else [None]
        if None in pair:
            what = f"{called} has the point {shorten(point)}, which is not [x, y]"
            raise RowError(FaultKind.BAD_ANNOTATION, what, _FIX)
        found += [value for value in pair if value is not None]
    return found


def _area(kind: str, points: list[float], called: str) -> tuple[PixelBox, list[list[float]]]:
    """The box, and the outline if there is one."""
    if kind in ("rectangle", "mask") and len(points) == 4:
        return box_around(points), []
    if kind == "circle" and len(points) == 4:
        x, y, on_x, on_y = points
        radius = ((on_x - x) ** 2 + (on_y - y) ** 2) ** 0.5
        return (x - radius, y - radius, x + radius, y + radius), []
    if kind in ("polygon", "rotation", "oriented_rectangle") and len(points) >= 6:
        return box_around(points), [points]
    raise RowError(FaultKind.BAD_ANNOTATION, f"{called} is a {shorten(kind)} of {len(points) // 2} points", _FIX)
