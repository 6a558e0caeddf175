"""Pictures that Python callers hold, in whatever form: arrays, tensors, PIL's, encoded bytes.

All become what files become: uint8 [height, width, 3], blue, green, red. Nothing is guessed: what could mean two things
is refused, with what to write instead.
"""

import sys
from typing import Any, Literal

import cv2
import numpy as np
import torch

from yolofast.errors import UserError, shorten
from yolofast.media.pictures import decode_picture
from yolofast.pixels import Image

Channels = Literal["bgr", "rgb"]
"""The order of colours in an array or tensor; with a fourth channel, of opacity, that is dropped."""
_TAKEN = (
    "a file's name, an open file, its bytes, a PIL image, an array [height, width, 3] or a tensor [3, height, width]"
)
_COUNTS = (1, 3, 4)
"""Of channels: grey, colours, and colours with opacity."""
_ENCODED = (bytes, bytearray, memoryview)


def is_one(given: object) -> bool:
    """Whether it is a picture, or a batch of them in one array, rather than a list of such."""
    return isinstance(given, (np.ndarray, torch.Tensor, *_ENCODED)) or _is_pil(given) or _is_open_file(given)


def pictures_of(given: object, channels: Channels | None = None) -> list[Image]:
    """One, or as many as an array or tensor of four dimensions holds.

    Without `channels`, arrays are taken for blue, green, red, as OpenCV reads them, and tensors for red, green, blue,
    as torchvision does. PIL's images and encoded bytes say their order themselves.
    """
    check_channels(channels)
    if _is_open_file(given):
        given = _content_of(given)
    if isinstance(given, _ENCODED):
        return [decode_picture(bytes(given), "the bytes given as an image")]
    if _is_pil(given):
        return [_of_pil(given)]
    if isinstance(given, torch.Tensor):
        arrays, order = _of_tensor(given), channels or "rgb"
    elif isinstance(given, np.ndarray):
        arrays, order = _of_array(given), channels or "bgr"
    else:
        raise UserError(f"an image is {type(given).__name__}: {shorten(given)}", fix=f"give {_TAKEN}")
    return [_as_colours(_as_levels(one), order) for one in arrays]


def check_channels(channels: object) -> None:
    if channels not in (None, "bgr", "rgb"):
        raise UserError(f"channels is {shorten(channels)}", fix='give "rgb" or "bgr"')


def name_of(given: object) -> str | None:
    """Where PIL has read its image from, and what an open file says."""
    name = getattr(given, "filename" if _is_pil(given) else "name", None)
    return name if isinstance(name, str) and name else None


def _is_open_file(given: object) -> bool:
    """Or what a web server makes of a file that is sent to it; its lines are no pictures."""
    return callable(getattr(given, "read", None))


def _content_of(file: Any) -> bytes:
    content = file.read()
    if not isinstance(content, bytes):
        raise UserError(f"an open file gives {type(content).__name__}, not bytes", fix='open it by open(name, "rb")')
    return content


def _is_pil(given: object) -> bool:
    """An image of PIL's can only be there if PIL is."""
    pil = sys.modules.get("PIL.Image")
    return pil is not None and isinstance(given, pil.Image)


def _of_pil(given: Any) -> Image:
    """As PIL holds it: boxes are in its pixels, so it is not turned as its EXIF data says."""
    if given.mode in ("F", "I") or given.mode.startswith("I;"):
        what = f"a PIL image has the mode {given.mode}, whose levels have no fixed range"
        raise UserError(what, fix='scale it to 8 bits, such as image.convert("L")')
    return np.ascontiguousarray(np.asarray(given.convert("RGB"))[..., ::-1])


def _of_tensor(given: torch.Tensor) -> list[np.ndarray[Any, Any]]:
    tensor = given.detach().cpu()
    tensor = tensor.float() if tensor.dtype is torch.bfloat16 else tensor
    if tensor.ndim == 2:
        return [tensor.numpy()]
    if tensor.ndim not in (3, 4) or tensor.shape[-3] not in _COUNTS:
        fix = "give [3, height, width], or [N, 3, height, width] for several"
        if tensor.ndim in (3, 4) and tensor.shape[-1] in _COUNTS:
            fix += f": tensor.permute({'2, 0, 1' if tensor.ndim == 3 else '0, 3, 1, 2'})"
        raise UserError(f"an image is a tensor {list(tensor.shape)}", fix=fix)
    return [one.permute(1, 2, 0).numpy() for one in (tensor if tensor.ndim == 4 else tensor[None])]


def _of_array(given: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    if given.ndim == 2:
        return [given]
    if given.ndim not in (3, 4) or given.shape[-1] not in _COUNTS:
        fix = "give [height, width, 3], or [N, height, width, 3] for several"
        if given.ndim in (3, 4) and given.shape[-3] in _COUNTS:
            fix += f": array.transpose({'1, 2, 0' if given.ndim == 3 else '0, 2, 3, 1'})"
        raise UserError(f"an image is an array {list(given.shape)}", fix=fix)
    return list(given) if given.ndim == 4 else [given]


def _as_levels(array: np.ndarray[Any, Any]) -> Image:
    if not array.size:
        raise UserError(f"an image has no pixels: {list(array.shape)}", fix="give at least one")
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise UserError(f"an image is of {array.dtype}", fix="give uint8 from 0 to 255, or floats from 0 to 1")
    least, most = float(array.min()), float(array.max())
    if not (least >= 0 and most <= 1):  # NaN is neither
        fix = "divide by 255, or give uint8" if most > 1 else "scale it to 0 to 1, or give uint8"
        raise UserError(f"an image of floats has values from {least:g} to {most:g}", fix=fix)
    return np.asarray((array * 255).round(), np.uint8)


def _as_colours(array: Image, order: Channels) -> Image:
    if array.ndim == 2 or array.shape[2] == 1:
        return np.asarray(cv2.cvtColor(np.ascontiguousarray(array), cv2.COLOR_GRAY2BGR), np.uint8)
    colours = array[..., :3]
    return np.ascontiguousarray(colours[..., ::-1] if order == "rgb" else colours)
