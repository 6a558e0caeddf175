"""Masks as run lengths: COCO's, read and written, and what Label Studio's brush has painted, of which the box is read.

COCO's are lengths of runs of 0 and 1 in turn, down the columns; as a list, or packed into text. In the text a number is
written five bits at a time, lowest first, from the character `0` on; the sixth bit says that more follow. From the
fourth number on it is the difference to the number two before.

Label Studio's are the bytes of an RGBA picture, row by row, as a stream of bits. Thirty-two say how many values there
are, five how long a value is, less one, four times four how long a count is, less one. Then come runs: a bit for "all
the same", two for the kind of count, the count less one, and one value or as many. Pixels are painted whose fourth
value, the opacity, is not 0. Only runs are looked at: a few bytes that state millions of pixels cost nothing.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from yolofast.files.budget import MAX_PIXELS

_BITS, _MORE, _SIGN = 0x1F, 0x20, 0x10
_CHANNELS, _OPACITY = 4, 3
_MOST_BITS = 60
"""Of a length."""


def resized_mask(mask: Mapping[str, Any], width: int, height: int) -> dict[str, Any] | None:
    """The same mask for an image of another size, as a list of lengths; None for what is no mask."""
    found = _lengths(mask)
    if found is None:
        return None
    (rows, columns), ends = found
    # The nearest pixel of each new one, as OpenCV has it: asked of the runs, which a few bytes may make millions of.
    down = np.minimum(np.floor(np.arange(height) * (1 / (height / rows))), rows - 1).astype(np.int64)
    across = np.minimum(np.floor(np.arange(width) * (1 / (width / columns))), columns - 1).astype(np.int64)
    runs = np.searchsorted(ends, across[None] * rows + down[:, None], side="right")
    return encoded_mask(runs % 2)


def encoded_mask(pixels: npt.NDArray[Any]) -> dict[str, Any]:
    """Of [height, width] zeros and ones."""
    flat = np.asarray(pixels, np.uint8).ravel(order="F")
    changes = np.flatnonzero(np.diff(flat)) + 1
    ends = [*([0] if flat.size and flat[0] else []), *changes.tolist(), int(flat.size)]
    counts = [end - start for start, end in pairwise([0, *ends])]
    return {"counts": counts, "size": [int(side) for side in pixels.shape[:2]]}


def _lengths(mask: Mapping[str, Any]) -> tuple[tuple[int, int], npt.NDArray[np.int64]] | None:
    """Height and width, and the end of each run; None for what is no mask."""
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
    return (size[0], size[1]), np.cumsum(lengths, dtype=np.int64)


def _unpacked(text: str) -> list[int]:
    numbers: list[int] = []
    value = shift = 0
    for character in text:
        if shift > _MOST_BITS:
            return []  # a number without an end: each of its characters would cost what all before have
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


class NoMaskError(ValueError):
    """With the reason."""


def box_of_brush(rle: Any, width: int, height: int) -> tuple[int, int, int, int] | None:
    """Left, top, right, bottom of what is painted, in pixels; None if nothing is. Raises `NoMaskError`."""
    if not isinstance(rle, list) or not all(type(one) is int and 0 <= one <= 255 for one in rle):
        raise NoMaskError("rle is no list of bytes")
    left, top, right, bottom = width, height, 0, 0
    for start, end in _painted(_Bits(bytes(rle)), _CHANNELS * width * height):
        first, last = divmod(start, width), divmod(end - 1, width)
        whole_rows = first[0] != last[0]  # to the end of one row, and from the beginning of another
        left, right = min(left, 0 if whole_rows else first[1]), max(right, width if whole_rows else last[1] + 1)
        top, bottom = min(top, first[0]), max(bottom, last[0] + 1)
    return (left, top, right, bottom) if right else None


class _Bits:
    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def next(self, count: int) -> int:
        end = self._at + count
        if end > 8 * len(self._content):
            raise NoMaskError("rle ends too early")
        first, last = self._at // 8, (end + 7) // 8
        self._at = end
        return int.from_bytes(self._content[first:last]) >> (8 * last - end) & ((1 << count) - 1)


def _painted(bits: _Bits, expected: int) -> Iterator[tuple[int, int]]:
    """Ranges of pixels, counted from the upper left corner, row by row."""
    stated = bits.next(32)
    if stated != expected:
        raise NoMaskError(f"rle states {stated:,} values instead of the {expected:,} of its picture")
    value_bits, count_bits = bits.next(5) + 1, [bits.next(4) + 1 for _ in range(4)]
    place = 0
    while place < stated:
        same = bits.next(1)
        end = place + 1 + bits.next(count_bits[bits.next(2)])
        if end > stated:
            raise NoMaskError("rle holds more values than it states")
        if same:
            if bits.next(value_bits) and (pixels := _opacities(place, end)):
                yield pixels[0], pixels[-1] + 1
        else:
            for one in range(place, end):
                if bits.next(value_bits) and one % _CHANNELS == _OPACITY:
                    yield one // _CHANNELS, one // _CHANNELS + 1
        place = end


def _opacities(start: int, end: int) -> range:
    """The pixels whose fourth value lies in a range of values."""
    return range((start + _CHANNELS - 1 - _OPACITY) // _CHANNELS, (end + _CHANNELS - 1 - _OPACITY) // _CHANNELS)
