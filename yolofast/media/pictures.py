"""Images read, checked and fitted to a network's input; unique names for the files made of them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from yolofast.augment.plan import FILL
from yolofast.errors import UserError
from yolofast.files.budget import MAX_PIXELS, PIXELS_VARIABLE, read_bounded
from yolofast.files.other_formats import HOW_TO_CONVERT, other_format
from yolofast.image_bytes import TooCostlyError, decode_image
from yolofast.pixels import Image
from yolofast.structures import InputConvention

_SUFFIX = re.compile(r"\.\w{2,5}$")
_UNUSUAL = re.compile(r"[^\w.\-+ ()\[\]]+")


def read_picture(path: str | Path) -> Image:
    """Turned as its EXIF data says."""
    try:
        content = read_bounded(path)
    except OSError as error:
        fix = "check its permissions" if isinstance(error, PermissionError) else "check the file and the disk"
        raise UserError(f"cannot be read: {error.strerror}", where=path, fix=fix) from error
    return decode_picture(content, path)


def decode_picture(content: bytes, where: str | Path) -> Image:
    """Grey, transparent and palette images, and those of 16 bits, become 8 bits of blue, green and red."""
    try:
        picture = decode_image(content)
    except TooCostlyError as error:
        raise UserError(str(error), where=where, fix="make the image smaller, or save it anew, or remove it") from None
    except (cv2.error, MemoryError):  # raised for what a header announces, before any pixel is looked at
        what = f"says it has more pixels than the {MAX_PIXELS:,} that are allowed, or than memory holds"
        fix = f"make the image smaller, or remove it; {PIXELS_VARIABLE}=NUMBER in the environment allows more"
        raise UserError(what, where=where, fix=fix) from None
    if picture is None:
        if (name := other_format(content)) is not None:
            raise UserError(f"is {name}, which is not read, whatever its name says", where=where, fix=HOW_TO_CONVERT)
        raise UserError("is not an image, or is damaged", where=where, fix="give JPEG, PNG, BMP, WebP or TIFF files")
    return picture


def checked_picture(array: object) -> Image:
    """The array that a caller gives as an image, checked."""
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        got = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
        raise UserError(f"an image is {got}", fix="give uint8 [height, width, 3], blue, green, red, or a file's name")
    if not array.size:
        raise UserError("an image has no pixels", fix="give at least one")
    return array


@dataclass(frozen=True)
class Placement:
    """Where an image lies in a network's input; all are x and y, in pixels of the input."""

    size: tuple[int, int]
    pad: tuple[int, int]
    """On the left and above."""
    room: tuple[int, int]
    """That it does not fill, on both sides together."""
    gain: tuple[float, float]
    """Pixels of the input per pixel of the image."""


def placement(
    width: int, height: int, shape: tuple[int, int], stride: int, inputs: InputConvention | None = None
) -> Placement:
    """An image as large as fits this height and width, padded to multiples of the stride.

    YOLOv7 pads both sides as little as the strides need; YOLOX (see `InputConvention`) pads behind, to the whole shape.
    """
    inputs = inputs or InputConvention()
    ratio = min(shape[0] / height, shape[1] / width)
    whole = int if inputs.whole else round  # as published
    narrow, low = max(whole(width * ratio), 1), max(whole(height * ratio), 1)
    target = shape[::-1] if inputs.whole else (narrow, low)
    room_x, room_y = (-(-side // stride) * stride - used for side, used in zip(target, (narrow, low), strict=True))
    pad = (0, 0) if inputs.top_left else (round(room_x / 2 - 0.1), round(room_y / 2 - 0.1))
    return Placement((narrow, low), pad, (room_x, room_y), (narrow / width, low / height))


class Fitted(NamedTuple):
    """An image as a network takes it."""

    input: Image
    place: Placement

    @property
    def resized(self) -> Image:
        """Without what it is padded with."""
        (left, top), (width, height) = self.place.pad, self.place.size
        return self.input[top : top + height, left : left + width]


def fit(image: Image, shape: tuple[int, int], stride: int, inputs: InputConvention | None = None) -> Fitted:
    """The image resized and padded as `placement` says."""
    height, width = image.shape[:2]
    place = placement(width, height, shape, stride, inputs)
    (left, top), (room_x, room_y) = place.pad, place.room
    resized = image if place.size == (width, height) else cv2.resize(image, place.size, interpolation=cv2.INTER_LINEAR)
    padded = cv2.copyMakeBorder(
        resized, top, room_y - top, left, room_x - left, cv2.BORDER_CONSTANT, value=(FILL, FILL, FILL)
    )
    return Fitted(np.asarray(padded, np.uint8), place)


class UniqueNames:
    """`a/street.jpg` is `street`, and then `b/street.jpg` is `street_2`."""

    def __init__(self) -> None:
        self._name_of: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, source: str | Path) -> str:
        """The name, without suffix, for what belongs to this file, address or camera; always the same for the same."""
        key = str(source)
        if key not in self._name_of:
            stem, number = _stem(key), 1
            name = stem
            while name in self._taken:
                number += 1
                name = f"{stem}_{number}"
            self._name_of[key] = name
            self._taken.add(name)
        return self._name_of[key]


def _stem(source: str) -> str:
    if "://" in source:
        host, _, path = source.split("://", 1)[1].split("?")[0].partition("/")
        return _UNUSUAL.sub("_", f"{host}/{_SUFFIX.sub('', path)}").strip("_.") or "stream"
    return f"camera{source}" if source.isdecimal() else Path(source).stem
