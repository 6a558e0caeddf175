"""Which class of the data yaml each category of a COCO file is: by name if possible, else in the order of the ids."""

from pathlib import Path

import numpy as np

from yolofast.dataset.coco_document import CocoDocument, as_id
from yolofast.dataset.data_yaml import DataYaml
from yolofast.dataset.reading import Classes
from yolofast.errors import UserError, shorten

NOT_IN_FILE = -1
"""The category id of a class that the annotation file does not have."""


def match_classes(document: CocoDocument, data: DataYaml, path: Path) -> tuple[dict[int, int], Classes]:
    """Category id -> class, and the classes."""
    if data.names is not None and (class_of := _match_by_name(document, data.names)) is not None:
        id_of = {place: category for category, place in reversed(class_of.items())}
        ids = [id_of.get(place, NOT_IN_FILE) for place in range(len(data.names))]
        return class_of, Classes(data.names, np.array(ids, dtype=np.int64))
    categories = document.categories
    if data.nc is not None and len(categories) != data.nc:
        known = shorten([category.name for category in categories])
        what = f"has {len(categories)} categories, {known}, which are not the {data.nc} classes of the data yaml"
        raise UserError(what, where=path, fix="give names in the data yaml as the categories are called")
    if not categories:
        raise UserError("has no categories", where=path, fix="export it again, or give names in the data yaml")
    names = data.names or tuple(category.name for category in categories)
    ids = [category.id for category in categories]
    return {category: place for place, category in enumerate(ids)}, Classes(names, np.array(ids, dtype=np.int64))


def _match_by_name(document: CocoDocument, names: tuple[str, ...]) -> dict[int, int] | None:
    """None if a category in use has a name that the yaml does not know; unused ones, such as a root, do not matter."""
    place = {name: i for i, name in reversed(list(enumerate(names)))}
    class_of = {category.id: place[category.name] for category in document.categories if category.name in place}
    # Where this is None, the annotation has a fault of its own.
    in_use = {as_id(annotation.get("category_id")) for annotation in document.annotations}
    strangers = {category.id for category in document.categories} - set(class_of)
    return class_of if class_of and not in_use & strangers else None
