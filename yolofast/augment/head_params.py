"""The file of `--head-params`: how strongly to augment what shows objects of each head (1B4H)."""

from pathlib import Path
from typing import Any

import numpy as np

from yolofast.augment.by_head import HeadPolicy, count_by_head
from yolofast.errors import UserError, nearest, shorten
from yolofast.image_index import ImageIndex
from yolofast.resources import find_resource
from yolofast.yaml_file import YamlFile, read_yaml

_MOST = {"degrees": 180.0, "flipud": 1.0, "fliplr": 1.0, "shear": 89.0, "mixup": 1.0}
_UNUSED = "label_filtering"


def read_head_policy(
    path: str | Path, index: ImageIndex, head_classes: tuple[tuple[int, ...], ...], faithful: bool
) -> HeadPolicy:
    """The values of the file, one entry `head_0`, `head_1` … for each head that owns classes of the data set."""
    file = read_yaml(find_resource(path, "head_params"))
    names = [f"head_{head}" for head in range(len(head_classes))]
    for key in file.values:
        if key not in names and key != _UNUSED:
            raise _fault(file, (str(key),), f"there is no {shorten(key)}{nearest(str(key), names)}", _heads(names))
    if lacking := [name for name in names if name not in file.values]:
        raise _fault(file, (), f"{lacking[0]} is missing", _heads(names))
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


def _heads(names: list[str]) -> str:
    return f"the model has the heads {', '.join(names)}"


def _fault(file: YamlFile, keys: tuple[str, ...], what: str, fix: str) -> UserError:
    return UserError(what, where=file.where, line=file.line(*keys) if keys else None, fix=fix)
