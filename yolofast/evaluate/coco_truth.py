"""The ground truth of a split as COCO's evaluation wants it, from its annotation file or from its labels.

The file is preferred, because it knows what labels do not: the area of an object's outline, by which objects count as
small, medium or large. Images and classes are numbered from 1 by their place in the split. So splits with any ids,
several categories of one class, or a single class for all are no special cases. Objects are numbered from 1 too:
COCO's matching takes the number 0 for "none".
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError
from yolofast.evaluate.matching import pixel_corners
from yolofast.files.known_numbers import as_id, known_number, stated_size
from yolofast.image_index import ImageIndex
from yolofast.words import own_command

_SECTIONS = ("images", "annotations", "categories")


@dataclass(frozen=True)
class CocoTruth:
    document: dict[str, Any]
    """images, annotations, categories."""
    scale: npt.NDArray[np.float64]
    """[N, 2] x and y of the image as it is, times this, are those the boxes refer to: files may state another size."""


def coco_truth(index: ImageIndex) -> CocoTruth:
    if index.annotations is None:
        return CocoTruth(_document(index, _objects_of_labels(index)), np.ones((len(index), 2)))
    content = _read(index.annotations)
    return CocoTruth(_document(index, _objects_of_file(index, content)), _scale(index, content))


def _document(index: ImageIndex, objects: list[dict[str, Any]]) -> dict[str, Any]:
    for number, one in enumerate(objects, start=1):
        one["id"] = number
    images = [{"id": place + 1, "width": int(w), "height": int(h)} for place, (w, h) in enumerate(index.sizes)]
    categories = [{"id": label + 1, "name": name} for label, name in enumerate(index.names)]
    return {"images": images, "annotations": objects, "categories": categories}


def _object(image: int, label: int, box: list[float], area: float, crowd: bool) -> dict[str, Any]:
    return {"image_id": image + 1, "category_id": label + 1, "bbox": box, "area": area, "iscrowd": int(crowd)}


def _objects_of_labels(index: ImageIndex) -> list[dict[str, Any]]:
    image = index.image_of_box()
    corners = pixel_corners(index.boxes, index.sizes[image])
    boxes = np.concatenate((corners[:, :2], corners[:, 2:] - corners[:, :2]), axis=1)
    columns = (image, index.labels, boxes, boxes[:, 2:].prod(axis=1), index.crowd)
    return [_object(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _objects_of_file(index: ImageIndex, content: dict[str, Any]) -> list[dict[str, Any]]:
    """Of the split's images only. Entries without a usable box were reported when the data set was read."""
    place = {image: number for number, image in enumerate(index.image_ids.tolist())}
    label_of = _labels_of_categories(index, content)
    objects = []
    for entry in content.get("annotations", []):
        image, label = place.get(as_id(entry.get("image_id"))), label_of.get(as_id(entry.get("category_id")))
        box = entry.get("bbox")
        if image is None or label is None or not _is_box(box):
            continue
        area = known_number(entry.get("area"))
        area = box[2] * box[3] if area is None else area
        objects.append(_object(image, label, [float(value) for value in box], area, entry.get("iscrowd") == 1))
    return objects


def _labels_of_categories(index: ImageIndex, content: dict[str, Any]) -> dict[Any, int]:
    """By name, so that several categories may share one, and by id."""
    ids = [as_id(entry.get("id")) for entry in content.get("categories", [])]
    if len(index.names) == 1:  # a split of one class, or treated as such
        return dict.fromkeys(ids, 0)
    by_name = {name: label for label, name in reversed(list(enumerate(index.names)))}
    names = [str(entry.get("name", number)) for number, entry in zip(ids, content.get("categories", []), strict=True)]
    found = {number: by_name[name] for number, name in zip(ids, names, strict=True) if name in by_name}
    return found | {category: label for label, category in enumerate(index.category_ids.tolist()) if category in ids}


def _scale(index: ImageIndex, content: dict[str, Any]) -> npt.NDArray[np.float64]:
    stated = {as_id(entry.get("id")): stated_size(entry) for entry in content.get("images", [])}
    sizes = [
        stated.get(image) or tuple(size) for image, size in zip(index.image_ids.tolist(), index.sizes, strict=True)
    ]
    return np.asarray(np.array(sizes, np.float64).reshape(-1, 2) / index.sizes)


def _is_box(box: object) -> bool:
    return isinstance(box, list) and len(box) == 4 and all(isinstance(v, int | float) and abs(v) < 1e9 for v in box)


def _read(path: Path) -> dict[str, Any]:
    """The split was read from it, but it may have been changed since."""
    try:
        content = json.loads(path.read_bytes())
        problem = "" if _is_coco(content) else "it is no COCO annotation file any more"
    except (OSError, ValueError, RecursionError) as error:
        problem = str(error)
    if problem:
        fix = f"restore the annotation file, or run `{own_command()} check`"
        raise UserError(f"cannot be read for evaluation: {problem}", where=path, fix=fix)
    return content  # type: ignore[no-any-return]


def _is_coco(content: Any) -> bool:
    sections = [content.get(name, []) for name in _SECTIONS] if isinstance(content, dict) else [None]
    return all(isinstance(one, list) and all(isinstance(entry, dict) for entry in one) for one in sections)
