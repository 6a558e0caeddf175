"""LabelMe: a JSON file for each image, with its outlines and boxes.

Outlines of one label and `group_id` are the parts of one object, as LabelMe's own converters have it. A rectangle may
have its corners in any order. Lines and points have no area and are left out; of a mask the box is kept. An image
without a file was not annotated. One that is not beside its file may stand in it, in base64 (`imageData`).
"""

import base64
import binascii
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yolofast.dataset.coco_document import as_number, load_json
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.labelled import Labelled, LabelledImage, LabelledObject, PixelBox, box_around
from yolofast.dataset.formats.places import ImagePlaces, files_ending, root_of, split_of
from yolofast.dataset.formats.recognise import Evidence
from yolofast.dataset.image_header import BadImageError, read_image_header
from yolofast.dataset.yolo_labels import RowError
from yolofast.errors import UserError, shorten
from yolofast.files.threads import in_threads
from yolofast.image_bytes import PNG_START

_HEAD = 2**16
_WITHOUT_AREA = ("line", "linestrip", "point", "points")
_STARTS = {PNG_START: ".png", b"\xff\xd8\xff": ".jpg"}
"""What LabelMe puts into its files."""
_FIX = "draw it again in LabelMe, or remove the shape"


def recognise(evidence: Evidence) -> str | None:
    files = evidence.ending(".json")
    # The picture itself may stand before the path, in base64, and fill the whole head.
    own = [name for name in files[:5] if '"shapes"' in (head := evidence.head(name, _HEAD)) and '"flags"' in head]
    return evidence.counted(files, "JSON file") if own else None


@dataclass
class _File:
    path: str
    name: str = ""
    """Of the image, as the file has it."""
    image: str | None = None
    inside: bool = False
    """Whether the image stood in the file."""
    why_not: str = ""
    """That image cannot be used."""
    size: tuple[int, int] | None = None
    objects: list[LabelledObject] = field(default_factory=list)
    faults: list[RowError] = field(default_factory=list)
    without_area: int = 0
    masks: int = 0
    refusal: UserError | None = None
    is_labelme: bool = True


def read(place: Path, images: ImagePlaces, found: Labelled) -> None:
    root = root_of(place)
    for file in in_threads(lambda path: _read_file(path, images), files_ending(place, ".json")):
        if file.refusal is not None:
            found.note_refusal(file.refusal, file.path)
            continue
        if not file.is_labelme:
            found.dropped["JSON files that are not of LabelMe"] += 1
            continue
        if file.image is None:
            _note_missing(found, file)
            continue
        for error in file.faults:
            found.note_row(error, file.path, None, file.image)
        if file.without_area:
            found.dropped["lines and points, which have no area"] += file.without_area
        if file.masks:
            found.dropped["outlines of masks, whose boxes are kept"] += file.masks
        called = f"{os.path.splitext(file.path)[0]}{os.path.splitext(file.image)[1]}" if file.inside else file.image
        split = split_of(called, root)
        found.images.append(LabelledImage(file.image, file.path, file.size, file.objects, split, called=called))
        if file.inside:
            found.changed["pictures taken from their JSON files"] += 1


def _note_missing(found: Labelled, file: _File) -> None:
    name = file.name or os.path.splitext(os.path.basename(file.path))[0]
    if not file.why_not:
        found.note_missing(name, file.path)
        return
    what = f"there is no image {shorten(name)} near it, and the one inside (imageData) {file.why_not}"
    fix = "put the image beside the file, name the folder of the images with --images DIR, or --skip-bad"
    found.note(FaultKind.MISSING_IMAGE, file.path, what, fix)


def _find_image(file: _File, data: object, images: ImagePlaces) -> None:
    stem = os.path.splitext(os.path.basename(file.path))[0]
    near = images.of_stem(stem, file.path) or (images.find(file.name, file.path) if file.name else None)
    if near is not None and not (data and images.guessed):
        file.image = near
    elif data and images.aside is not None:
        try:
            file.image, file.inside = _put_aside(data, Path(file.path), images.aside), True
        except BadImageError as error:
            file.why_not = str(error)


def _put_aside(data: object, path: Path, aside: Path) -> str:
    """The picture as a file that is named like the labels. Raises `BadImageError`."""
    try:
        content = base64.b64decode(data, validate=True) if isinstance(data, str) else b""
    except (binascii.Error, ValueError):
        content = b""
    suffix = next((suffix for start, suffix in _STARTS.items() if content.startswith(start)), None)
    if suffix is None:
        raise BadImageError(f"is no {' or '.join(_STARTS.values())} in base64")
    target = (aside / path.relative_to(path.anchor)).with_suffix(suffix)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    read_image_header(target)
    return str(target)


def _read_file(path: str, images: ImagePlaces) -> _File:
    try:
        content = load_json(Path(path))
    except UserError as error:
        return _File(path, refusal=error)
    if not isinstance(content, dict) or not isinstance(content.get("shapes"), list):
        return _File(path, is_labelme=False)
    name = content.get("imagePath")
    width, height = content.get("imageWidth"), content.get("imageHeight")
    stated = (width, height) if isinstance(width, int) and isinstance(height, int) and width and height else None
    file = _File(path, name if isinstance(name, str) else "", size=stated)
    _find_image(file, content.get("imageData"), images)
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
    if kind in ("rectangle", "mask") and len(points) in (4, 8):  # X-AnyLabeling names all corners
        return box_around(points), []
    if kind == "circle" and len(points) == 4:
        x, y, on_x, on_y = points
        radius = ((on_x - x) ** 2 + (on_y - y) ** 2) ** 0.5
        return (x - radius, y - radius, x + radius, y + radius), []
    if kind in ("polygon", "rotation", "oriented_rectangle") and len(points) >= 6:
        return box_around(points), [points]
    raise RowError(FaultKind.BAD_ANNOTATION, f"{called} is a {shorten(kind)} of {len(points) // 2} points", _FIX)
