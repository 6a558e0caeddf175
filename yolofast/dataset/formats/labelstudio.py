"""Label Studio: its JSON, and JSON-MIN, a list of tasks.

Values are per cent of the image, turned around the upper left corner. Image names are addresses of its server: the file
is looked for by the last part, with and without the eight letters that an upload puts before it. Of what a brush has
painted the box is kept. Of several annotations of one task the last counts. A task without an annotation is left out;
one whose annotation is empty shows nothing. JSON-MIN has an entry for each annotation, and a list for each control.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from yolofast.dataset.coco_document import as_number, load_json
from yolofast.dataset.data_yaml import is_image_name
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.labelled import (
    SHARES,
    Labelled,
    LabelledImage,
    LabelledObject,
    PixelBox,
    box_around,
)
from yolofast.dataset.formats.places import ImagePlaces, files_ending, root_of, split_of
from yolofast.dataset.formats.recognise import Evidence
from yolofast.dataset.run_lengths import NoMaskError, box_of_brush
from yolofast.dataset.yolo_labels import RowError
from yolofast.errors import UserError, shorten

_UPLOADED = re.compile(r"[0-9a-f]{8}-(.+)")
_LABELS = ("rectanglelabels", "polygonlabels", "ellipselabels", "brushlabels", "keypointlabels", "labels")
_AREAS = ("rectanglelabels", "polygonlabels", "ellipselabels", "brushlabels", "labels")
_PARTS = (*_LABELS, "x", "points", "rle")
"""One of which a region has; what else a task lists is its data, or choices about the whole image."""
_FIX = "draw it again in Label Studio, or remove it"
_EARLIER = "earlier annotations of the same task"
_HEAD = 2**16


def recognise(evidence: Evidence) -> str | None:
    files = [name for name in evidence.ending(".json")[:8] if _is_own(evidence.head(name, _HEAD))]
    return ", ".join(files[:3]) if files else None


def _is_own(head: str) -> bool:
    is_list = head.lstrip("\ufeff \t\r\n").startswith("[")
    return is_list and any(f'"{word}"' in head for word in _LABELS[:5]) and ('"result"' in head or '"id"' in head)


def read(place: Path, images: ImagePlaces, found: Labelled) -> None:
    root = root_of(place)
    for path in files_ending(place, ".json"):
        try:
            tasks = load_json(Path(path))
        except UserError as error:
            found.note_refusal(error, path)
            continue
        if not isinstance(tasks, list):
            found.dropped["JSON files that are not of Label Studio"] += 1
            continue
        for number, task in enumerate(_last_of_each(tasks, found)):
            _add(task, f"task {_number(task, number)}", path, root, images, found)


def _number(task: Any, place: int) -> object:
    return task.get("id", place) if isinstance(task, dict) else place


def _add(task: Any, called: str, path: str, root: Path, images: ImagePlaces, found: Labelled) -> None:
    name = _image_name(task)
    if name is None:
        found.note(FaultKind.BAD_ANNOTATION, path, f"{called} names no image", "export tasks of images as JSON")
        return
    file, regions = _find(name, path, images), _regions(task, found)
    if regions is None:
        found.dropped["tasks without an annotation"] += 1
        return
    if file is None:
        found.note_missing(name, path)
        return
    sizes = {size for region in regions if (size := _size(region)) is not None}
    stated = sizes.pop() if len(sizes) == 1 else SHARES
    image = LabelledImage(file, path, stated, split=split_of(file, root))
    for number, region in enumerate(regions):
        try:
            one = _object(region, stated, f"{called}, result {number}")
        except RowError as error:
            found.note_row(error, path, None, file)
            continue
        if one is None:
            found.dropped["key points, texts and other results without a box"] += 1
            continue
        if "rle" in region["value"]:
            found.changed["masks of which only the box stays"] += 1
        image.objects.append(one)
    found.images.append(image)


def _last_of_each(tasks: list[Any], found: Labelled) -> list[Any]:
    """JSON-MIN repeats a task for each of its annotations."""
    last: dict[object, Any] = {}
    for number, task in enumerate(tasks):
        is_small = isinstance(task, dict) and "annotation_id" in task and isinstance(task.get("id"), (int, str))
        key = (task["id"],) if is_small else number
        if key in last:
            found.dropped[_EARLIER] += 1
        last[key] = task
    return list(last.values())


def _image_name(task: Any) -> str | None:
    data = task.get("data", task) if isinstance(task, dict) else {}
    if not isinstance(data, dict):
        return None
    texts = [value for value in (data.get("image"), *data.values()) if isinstance(value, str) and value]
    return next((text for text in texts if is_image_name(_address(text).path) or "d=" in text), None)


def _address(text: str) -> SplitResult:
    """What is no address is a path."""
    try:
        return urlsplit(text)
    except ValueError:
        return SplitResult("", "", text, "", "")


def _find(name: str, path: str, images: ImagePlaces) -> str | None:
    """`/data/upload/1/0a1b2c3d-street.jpg`, `/data/local-files/?d=folder/street.jpg`, `s3://bucket/street.jpg`."""
    address = _address(name)
    plain = unquote((parse_qs(address.query).get("d") or [address.path])[0])
    if (found := images.find(plain, path)) is not None:
        return found
    uploaded = _UPLOADED.fullmatch(plain.rpartition("/")[2])
    return images.find(uploaded[1], path) if uploaded else None


def _regions(task: dict[str, Any], found: Labelled) -> list[dict[str, Any]] | None:
    """Of the last annotation that was not skipped; None if there is none."""
    annotations = task.get("annotations", task.get("completions"))
    if not isinstance(annotations, list):  # JSON-MIN: under the name of the control
        lists = [value for value in task.values() if isinstance(value, list)]
        listed = [one for values in lists for one in values if isinstance(one, dict)]
        regions = [{"value": one, **_sized(one)} for one in listed if not one.keys().isdisjoint(_PARTS)]
        return regions if lists or "annotation_id" in task else None
    valid = [one for one in annotations if isinstance(one, dict) and not one.get("was_cancelled")]
    if not valid:
        return None
    if len(valid) > 1:
        found.dropped[_EARLIER] += len(valid) - 1
    result = valid[-1].get("result")
    return list(_joined(result)) if isinstance(result, list) else []


def _sized(value: dict[str, Any]) -> dict[str, Any]:
    return {name: value[name] for name in ("original_width", "original_height") if name in value}


def _joined(result: list[Any]) -> Iterator[dict[str, Any]]:
    """Where box and label are drawn by two controls, they come as two results of one id."""
    by_id: dict[Any, dict[str, Any]] = {}
    for number, one in enumerate(result):
        if not isinstance(one, dict) or not isinstance(one.get("value"), dict):
            continue
        key = one.get("id") if isinstance(one.get("id"), str) else number
        earlier = by_id.get(key)
        by_id[key] = one if earlier is None else {**earlier, "value": {**earlier["value"], **one["value"]}}
    return iter(by_id.values())


def _size(region: dict[str, Any]) -> tuple[int, int] | None:
    width, height = region.get("original_width"), region.get("original_height")
    return (width, height) if isinstance(width, int) and isinstance(height, int) and width > 0 and height > 0 else None


def _object(region: dict[str, Any], size: tuple[int, int], called: str) -> LabelledObject | None:
    value = region["value"]
    kind = next((name for name in _LABELS if isinstance(value.get(name), list) and value[name]), None)
    if kind is None:
        if value.keys().isdisjoint(_PARTS):
            return None  # a choice or a text about the whole image
        raise RowError(FaultKind.UNKNOWN_CLASS, f"{called} has no label", _FIX)
    area = None
    if kind in _AREAS:
        area = _painted(region, size, called) if "rle" in value else _area(value, size, called)
    return None if area is None else LabelledObject(str(value[kind][0]), area[0], area[1], id=called)


def _painted(region: dict[str, Any], size: tuple[int, int], called: str) -> tuple[PixelBox, list[list[float]]] | None:
    own = _size(region)
    try:
        if own is None:
            raise NoMaskError("original_width and original_height are missing")
        box = box_of_brush(region["value"]["rle"], *own)
    except NoMaskError as why:
        raise RowError(FaultKind.BAD_ANNOTATION, f"{called} is no mask: {why}", _FIX) from None
    if box is None:
        return None  # all of it was erased again
    across, down = size[0] / own[0], size[1] / own[1]
    return (box[0] * across, box[1] * down, box[2] * across, box[3] * down), []


def _area(value: dict[str, Any], size: tuple[int, int], called: str) -> tuple[PixelBox, list[list[float]]] | None:
    def numbers(values: list[Any]) -> list[float]:
        found = [as_number(one) for one in values]
        if None in found:
            raise RowError(FaultKind.BAD_ANNOTATION, f"{called} holds {shorten(values)}, which are no numbers", _FIX)
        return [one for one in found if one is not None]

    across, down = size[0] / 100, size[1] / 100
    if isinstance(value.get("points"), list):
        points = value["points"]
        if len(points) < 3 or not all(isinstance(point, list) and len(point) == 2 for point in points):
            raise RowError(FaultKind.BAD_ANNOTATION, f"{called} has not at least three points [x, y]", _FIX)
        flat = numbers([one for point in points for one in point])
        outline = [one * (down if place % 2 else across) for place, one in enumerate(flat)]
        return box_around(outline), [outline]
    if "radiusX" in value:
        x, y, rx, ry = numbers([value.get(name) for name in ("x", "y", "radiusX", "radiusY")])
        return ((x - rx) * across, (y - ry) * down, (x + rx) * across, (y + ry) * down), []
    if "width" not in value:
        return None
    x, y, width, height, angle = numbers([value.get(name, 0) for name in ("x", "y", "width", "height", "rotation")])
    left, top, width, height = x * across, y * down, width * across, height * down
    if not angle or size == SHARES:
        return (left, top, left + width, top + height), []
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    corners = ((0.0, 0.0), (width, 0.0), (width, height), (0.0, height))
    outline = [one for a, b in corners for one in (left + a * cos - b * sin, top + a * sin + b * cos)]
    return box_around(outline), [outline]
