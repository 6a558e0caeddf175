"""Data sets that are not on the disk but made on first use: a data yaml names one by `builtin: shapes`."""

import os

from yolofast.errors import UserError, nearest, shorten
from yolofast.resources import find_resource
from yolofast.yaml_file import read_yaml

BUILTIN_DATA = ("shapes",)


def builtin_data(data: str) -> str | None:
    """The built-in data set that `--data` means, or None if it names files. `shapes` alone will do."""
    if data in BUILTIN_DATA and not os.path.exists(data):
        return data
    file = read_yaml(find_resource(data, "data"))
    name = file.values.get("builtin")
    if name is not None and name not in BUILTIN_DATA:
        what = f"there is no built-in data set {shorten(name)}{nearest(str(name), BUILTIN_DATA)}"
        raise UserError(what, where=file.where, line=file.line("builtin"), fix=f"builtin: {BUILTIN_DATA[0]}")
    return name
