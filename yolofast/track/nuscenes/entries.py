"""Values of a table's entries, checked as they are taken out."""

import math
from typing import Any

from yolofast.dataset.data_yaml import is_image_name
from yolofast.dataset.faults import FaultKind
from yolofast.errors import shorten

Row = dict[str, Any]
_LARGEST = 1e9
"""Metres and pixels: beyond is a slip, and its square may overflow."""
_LATEST = 2**62
_LEVELS = {"": 0, "1": 1, "2": 2, "3": 3, "4": 4}


class BadRowError(ValueError):
    """An entry that cannot be used; the text says why."""

    def __init__(self, kind: FaultKind, what: str) -> None:
        super().__init__(what)
        self.kind = kind


def text(row: Row, key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise BadRowError(FaultKind.BAD_ANNOTATION, f"{key} is {shorten(value)}, not text")
    return value


def whole(row: Row, key: str, least: int = 0) -> int:
    value = row.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _LATEST:
        raise BadRowError(FaultKind.NOT_A_NUMBER, f"{key} is {shorten(value)}, not a whole number from {least}")
    return value


def numbers(row: Row, key: str, count: int) -> list[float]:
    return _checked(row.get(key), key, count)


def _checked(value: Any, key: str, count: int) -> list[float]:
    if not isinstance(value, list) or len(value) != count:
        raise BadRowError(FaultKind.BAD_ANNOTATION, f"{key} is {shorten(value)}, not {count} numbers")
    for one in value:
        if not isinstance(one, float | int) or not -_LARGEST < one < _LARGEST:  # false for NaN too
            raise BadRowError(FaultKind.NOT_A_NUMBER, f"{key} is {shorten(value)}, not {count} numbers below 1e9")
    return value


def quaternion(row: Row) -> list[float]:
    value = numbers(row, "rotation", 4)
    if math.hypot(*value) < 1e-6:
        raise BadRowError(FaultKind.BAD_ANNOTATION, f"rotation is {shorten(value)}, which is no rotation")
    return value


def sides(row: Row) -> list[float]:
    value = numbers(row, "size", 3)
    if min(value) <= 0:
        raise BadRowError(FaultKind.BAD_BOX, f"size is {shorten(value)}, not three lengths above 0")
    return value


def intrinsic(row: Row) -> list[float]:
    """Nine numbers, row by row."""
    value = row.get("camera_intrinsic")
    if not isinstance(value, list) or len(value) != 3:
        raise BadRowError(FaultKind.BAD_ANNOTATION, f"camera_intrinsic is {shorten(value)}, not 3 × 3 numbers")
    first, second, third = (_checked(one, "camera_intrinsic", 3) for one in value)
    if min(first[0], second[1]) <= 0 or third != [0, 0, 1]:
        what = f"camera_intrinsic is {shorten(value)}: focal lengths are above 0, and its last row is 0, 0, 1"
        raise BadRowError(FaultKind.BAD_ANNOTATION, what)
    return [*first, *second, *third]


def visibility(row: Row) -> int:
    """1 to 4; 0 where it is not known."""
    value = row.get("visibility_token", "")
    level = _LEVELS.get(value) if isinstance(value, str) else None
    if level is None:
        raise BadRowError(FaultKind.BAD_ANNOTATION, f"visibility_token is {shorten(value)}, not 1 to 4 or empty")
    return level


def image_file(row: Row) -> str:
    """Below the root, in a folder there: labels get the same name elsewhere, and must not lead out."""
    name = text(row, "filename")
    parts = name.split("/")
    if len(parts) < 2 or any(part in ("", ".", "..") for part in parts) or any(one in name for one in "\\\0\n"):
        raise BadRowError(FaultKind.BAD_ANNOTATION, f"filename is {shorten(name)}, not a file in a folder of the root")
    if not is_image_name(name):
        raise BadRowError(FaultKind.UNSUPPORTED, f"filename is {shorten(name)}, which is no image")
    return name
