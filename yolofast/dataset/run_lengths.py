"""COCO's run-length masks: lengths of runs of 0 and 1 in turn, down the columns; as a list, or packed into text.

In the text a number is written five bits at a time, lowest first, from the character `0` on; the sixth bit says that
more follow. From the fourth number on it is the difference to the number two before.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.files.budget import MAX_PIXELS

_BITS, _MORE, _SIGN = 0x1F, 0x20, 0x10


def resized_mask(mask: Mapping[str, Any], width: int, height: int) -> dict[str, Any] | None:
    """The same mask for an image of another size, as a list of lengths; None for what is no mask."""
    pixels = _decoded(mask)
    if pixels is None:
        return None
    return encoded_mask(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_NEAREST))


def encoded_mask(pixels: npt.NDArray[Any]) -> dict[str, Any]:
    """Of [height, width] zeros and ones."""
    flat = np.asarray(pixels, np.uint8).ravel(order="F")
    changes = np.flatnonzero(np.diff(flat)) + 1
    ends = [*([0] if flat.size and flat[0] else []), *changes.tolist(), int(flat.size)]
    counts = [end - start for start, end in pairwise([0, *ends])]
    return {"counts": counts, "size": [int(side) for side in pixels.shape[:2]]}


def _decoded(mask: Mapping[str, Any]) -> npt.NDArray[np.uint8] | None:
    size, counts = mask.get("size"), mask.get("counts")
    if not (isinstance(size, list) and len(size) == 2 and all(isinstance(side, int) and side > 0 for side in size)):
        return None
    if size[0] * size[1] > MAX_PIXELS:
        return None
    lengths = _unpacked(counts) if isinstance(counts, str) else counts
    if not isinstance(lengths, list) or not all(isinstance(one, int) and one >= 0 for one in lengths):
        return None
    if sum(lengths) != size[0] * size[1]:
        return None
    values = np.arange(len(lengths), dtype=np.uint8) % 2
    return np.ascontiguousarray(np.repeat(values, lengths).reshape(size, order="F"))


def _unpacked(text: str) -> list[int]:
    numbers: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - ord("0")
        value |= (bits & _BITS) << shift
        shift += 5
        if bits & _MORE:
            continue
        if bits & _SIGN:
            value -= 1 << shift
        numbers.append(value + numbers[-2] if len(numbers) > 2 else value)
        value = shift = 0
    return numbers
