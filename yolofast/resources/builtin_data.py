"""What `--data` means: a file, a folder with a data.yaml, a packaged file, or a data set that is made on first use.

A data yaml names a built-in data set by `builtin: shapes`; `shapes` alone will do. What is on the disk comes first, but
a folder is a data set only if it holds a data.yaml, so that a folder of that name does not hide the built-in one.
"""

import os
from collections.abc import Callable
from pathlib import Path

from yolofast.errors import UserError, nearest, shorten
from yolofast.files.yaml_file import read_yaml
from yolofast.resources import find_resource

BUILTIN_DATA = ("shapes",)
_IN_FOLDER = "data.yaml"


def data_yaml(data: str | Path, made: Callable[[], Path]) -> Path:
    """The data yaml that `--data` means; `made` makes the built-in data set and returns its yaml."""
    return _found(data) if builtin_data(data) is None else made()


def builtin_data(data: str | Path) -> str | None:
    """The built-in data set that `--data` means, or None if it names files."""
    if str(data) in BUILTIN_DATA and not os.path.isfile(data) and not os.path.isfile(os.path.join(data, _IN_FOLDER)):
        return str(data)
    file = read_yaml(_found(data))
    name = file.values.get("builtin")
    if name is not None and name not in BUILTIN_DATA:
        what = f"there is no built-in data set {shorten(name)}{nearest(str(name), BUILTIN_DATA)}"
        raise UserError(what, where=file.where, line=file.line("builtin"), fix=f"builtin: {BUILTIN_DATA[0]}")
    return name


def _found(data: str | Path) -> Path:
    inside = os.path.join(data, _IN_FOLDER)
    return Path(inside) if str(data) and os.path.isfile(inside) else find_resource(data, "data", BUILTIN_DATA)
