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
from yolofast.image_index import ImageIndex
from yolofast.words import own_command


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
        image, label, box = place.get(entry.get("image_id")), label_of.get(entry.get("category_id")), entry.get("bbox")
        if image is None or label is None or not _is_box(box):
            continue
        area = entry.get("area")
        area = float(area) if isinstance(area, int | float) else box[2] * box[3]
        objects.append(_object(image, label, [float(value) for value in box], area, entry.get("iscrowd") == 1))
    return objects


def _labels_of_categories(index: ImageIndex, content: dict[str, Any]) -> dict[Any, int]:
    """By name, so that several categories may share one, and by id."""
    ids = [entry["id"] for entry in content["categories"]]
    if len(index.names) == 1:  # a split of one class, or treated as such
        return dict.fromkeys(ids, 0)
    by_name = {name: label for label, name in reversed(list(enumerate(index.names)))}
    found = {entry["id"]: by_name[entry["name"]] for entry in content["categories"] if entry.get("name") in by_name}
    return found | {category: label for label, category in enumerate(index.category_ids.tolist()) if category in ids}


def _scale(index: ImageIndex, content: dict[str, Any]) -> npt.NDArray[np.float64]:
    stated = {entry["id"]: (entry.get("width"), entry.get("height")) for entry in content["images"]}
    sizes = [
        stated[image] if image in stated and all(stated[image]) else tuple(size)
        for image, size in zip(index.image_ids.tolist(), index.sizes, strict=True)
    ]
    return np.asarray(np.array(sizes, np.float64).reshape(-1, 2) / index.sizes)


def _is_box(box: object) -> bool:
    return isinstance(box, list) and len(box) == 4 and all(isinstance(v, int | float) and abs(v) < 1e9 for v in box)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        what = f"cannot be read for evaluation: {error}"
        raise UserError(what, where=path, fix=f"restore the annotation file, or run `{own_command()} check`") from None
    assert isinstance(content, dict)  # the split was read from it
    return content
