"""Class-aware augmentation (1B4H, `--head-params`): a mosaic's transform depends on which head's objects it shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.augment.draws import Doubles
from yolofast.errors import UserError, nearest, shorten
from yolofast.files.yaml_file import YamlFile, read_yaml
from yolofast.image_index import ImageIndex, Ints
from yolofast.resources import find_resource

_MOST = {"degrees": 180.0, "flipud": 1.0, "fliplr": 1.0, "shear": 89.0, "mixup": 1.0}
_UNUSED = "label_filtering"


@dataclass(frozen=True, kw_only=True)
class HeadPolicy:
    """One value per head; a mosaic takes those of one head, drawn in proportion to the objects it shows of each."""

    counts: Ints
    """[N, heads] objects in each image."""
    degrees: Doubles
    shear: Doubles
    flipud: Doubles
    fliplr: Doubles
    mixup: Doubles
    faithful: bool = False
    """As published: only `degrees` and `shear`, and only in 4-mosaics. Otherwise all five, in every image."""

    def pick(self, source_BVT: Ints, draw_BV: Doubles) -> Ints:
        """[B, V] the head whose values a view takes."""
        shown = np.where((source_BVT >= 0)[..., None], self.counts[np.maximum(source_BVT, 0)], 0).sum(axis=2)
        weight = np.where(shown.sum(-1, keepdims=True) > 0, shown, 1).cumsum(axis=-1)
        head: Ints = (draw_BV[..., None] * weight[..., -1:] >= weight).sum(-1)
        return head


def count_by_head(image_of_box: Ints, labels: Ints, images: int, head_classes: tuple[tuple[int, ...], ...]) -> Ints:
    """[N, heads] how many of each image's boxes belong to each head."""
    classes = max((max(own, default=-1) for own in head_classes), default=-1) + 1
    head_of = np.zeros(classes, np.int64)
    for head, own in enumerate(head_classes):
        head_of[list(own)] = head
    counts = np.zeros((images, len(head_classes)), np.int64)
    np.add.at(counts, (image_of_box, head_of[labels]), 1)
    return counts


def read_head_policy(
    path: str | Path, index: ImageIndex, head_classes: tuple[tuple[int, ...], ...], faithful: bool
) -> HeadPolicy:
    """The values of the file, one entry `head_0`, `head_1` … for each head that owns classes of the data set."""
    file = read_yaml(find_resource(path, "head_params"))
    names = [f"head_{head}" for head in range(len(head_classes))]
    fix = f"the model has the heads {', '.join(names)}"
    for key in file.values:
        if key not in names and key != _UNUSED:
            raise _fault(file, (str(key),), f"there is no {shorten(key)}{nearest(str(key), names)}", fix)
    if lacking := [name for name in names if name not in file.values]:
        raise _fault(file, (), f"{lacking[0]} is missing", fix)
    rows = [_checked(file, name) for name in names]
    values = {key: np.array([row[key] for row in rows]) for key in _MOST}
    counts = count_by_head(index.image_of_box(), index.labels, len(index), head_classes)
    return HeadPolicy(counts=counts, faithful=faithful, **values)


def _checked(file: YamlFile, name: str) -> dict[str, float]:
    given = file.values[name]
    if not isinstance(given, dict):
        raise _fault(file, (name,), f"{name} is {shorten(given)}", f"give {', '.join(_MOST)}")
    for key in given:
        if key not in _MOST:
            what = f"{name} has no {shorten(key)}{nearest(str(key), _MOST)}"
            raise _fault(file, (name, str(key)), what, f"give {', '.join(_MOST)}")
    for key, most in _MOST.items():
        if not _suits(given.get(key), most):
            what = f"{key} of {name} is {shorten(given[key])}" if key in given else f"{name} lacks {key}"
            raise _fault(file, (name, key), what, f"give a number from 0 to {most:g}")
    return {key: float(given[key]) for key in _MOST}


def _suits(value: Any, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def _fault(file: YamlFile, keys: tuple[str, ...], what: str, fix: str) -> UserError:
    return UserError(what, where=file.where, line=file.line(*keys) if keys else None, fix=fix)
