"""The annotations of one image of a COCO file -> rows: boxes as shares of the image, clipped to it.

A box that keeps no area in the image is left out, and one that repeats another counts once.
"""

from pathlib import Path
from typing import Any

from yolofast.dataset.coco_document import BadEntryError, CocoImage, as_id, pixel_box, polygon_points
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.reading import ImageRows
from yolofast.errors import shorten
from yolofast.image_index import Ints

_OVERSHOOT_PX = 1.0  # less is how annotation tools round
_OTHER_SHAPE = 0.03
_FIX_OUTSIDE = "check its bbox, [x, y, width, height] in pixels, and the width and height of the image in the file"
_FIX_NO_AREA = "draw it again, or remove the annotation"
_FIX_ENTRY = "write its bbox as [x, y, width, height] and polygons as [x1, y1, x2, y2, …], or remove the annotation"
_Box = tuple[float, float, float, float]


def image_rows(
    image: CocoImage, path: str, size: Ints, annotations: list[dict[str, Any]], class_of: dict[int, int], file: Path
) -> ImageRows:
    """`size` is that of the image on disk; boxes refer to the size the file states, if it does."""
    rows = ImageRows(str(file), path)
    _compare_shapes(rows, image, size)
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


def _clipped_shares(box: _Box, size: tuple[int, int]) -> tuple[_Box, float]:
    """cx, cy, w, h as shares of the image, and by how many pixels the box reached out of it."""
    x, y, w, h = box
    left, top, right, bottom = max(x, 0.0), max(y, 0.0), min(x + w, float(size[0])), min(y + h, float(size[1]))
    overshoot = max(left - x, top - y, x + w - right, y + h - bottom)
    centre = (left + right) / 2 / size[0], (top + bottom) / 2 / size[1]
    return (*centre, (right - left) / size[0], (bottom - top) / size[1]), overshoot


def _compare_shapes(rows: ImageRows, image: CocoImage, size: Ints) -> None:
    """An image of another shape than the file states was probably rotated or cropped after it was annotated."""
    if image.size is None or not size.all():
        return
    width, height = (int(side) for side in size)
    # Rounding a side to whole pixels when images are shrunk changes the shape too, of small ones noticeably.
    slack = _OTHER_SHAPE + 1 / min(width, height)
    if abs(image.size[0] * height / (image.size[1] * width) - 1) > slack:
        what = f"states {image.size[0]}×{image.size[1]} for {rows.image}, which is {width}×{height} as shown"
        rows.note(
            FaultKind.BAD_ANNOTATION, what, "correct width and height in the file, or turn the image back", fatal=False
        )
