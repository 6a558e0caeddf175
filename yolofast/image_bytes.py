"""The bytes of an image file as pixels, by OpenCV, without what its libraries write to standard error.

OpenCV's own messages can be switched off, libpng's cannot: it complains of colour profiles that programs have written
for decades, and of every damaged chunk. So a PNG is looked through before: chunks that change no pixel are left out,
and one that libpng would refuse for its checksums or its end is refused here. Pixels are those OpenCV shows.
"""

import os
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
"""[height, width, 3], blue, green, red."""
PNG_START = b"\x89PNG\r\n\x1a\n"
_DRAWN = (b"IHDR", b"PLTE", b"IDAT", b"acTL", b"fcTL", b"fdAT")
"""Chunks with the pixels, of animations too."""
_EXIF, _END, _EMPTY_END = b"eXIf", b"IEND", b"\0\0\0\0IEND\xaeB`\x82"
_OPTIONAL = 0x20
"""In the first letter of a chunk's name: what does not know it may leave it out."""
_AROUND = 12
"""Bytes of a chunk besides what it holds: length, name, checksum."""


def decode_image(content: bytes) -> Pixels | None:
    """Three channels, turned as the EXIF entry says; None of what is no image, or damaged.

    Raises `cv2.error` or `MemoryError` where a header announces too many pixels.
    """
    quiet_opencv()
    shown = _without_remarks(content) if content.startswith(PNG_START) else content
    pixels = cv2.imdecode(np.frombuffer(shown, np.uint8), cv2.IMREAD_COLOR) if shown else None
    return None if pixels is None else _bytes_of(pixels)


def quiet_opencv() -> None:
    """OpenCV and FFmpeg write complaints of their own to standard error; ours say what is wrong.

    FFmpeg heeds this when it is first used, so it comes before that.
    """
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_FATAL)


class PngChunk(NamedTuple):
    name: bytes
    whole: memoryview
    """Length, name, what it holds, and the checksum of name and that."""

    @property
    def is_whole(self) -> bool:
        return zlib.crc32(self.whole[4:-4]) == int.from_bytes(self.whole[-4:], "big")


def png_chunks(content: bytes) -> Iterator[PngChunk]:
    """Up to the end of the picture, as far as they are complete."""
    view, place = memoryview(content), len(PNG_START)
    while place + _AROUND <= len(view):
        end = place + _AROUND + int.from_bytes(view[place : place + 4], "big")
        if end > len(view):
            return
        chunk = PngChunk(bytes(view[place + 4 : place + 8]), view[place:end])
        yield chunk
        if chunk.name == _END:
            return
        place = end


def _without_remarks(content: bytes) -> bytes | None:
    """The same picture without what libpng only talks about; None if it would be refused."""
    kept: list[bytes | memoryview] = [PNG_START]
    left_out = False
    for chunk in png_chunks(content):
        if chunk.name == _END:
            return b"".join((*kept, _EMPTY_END)) if left_out or not chunk.is_whole else content
        is_drawn, turns = chunk.name in _DRAWN, chunk.name == _EXIF and bytes(chunk.whole[8:10]) in (b"II", b"MM")
        is_kept = (is_drawn or turns) and chunk.is_whole
        if not is_kept and (is_drawn or chunk.name[0] & _OPTIONAL == 0):
            return None
        if is_kept:
            kept.append(chunk.whole)
        left_out |= not is_kept
    return None  # it ends before its end


def _bytes_of(image: npt.NDArray[np.generic]) -> Pixels:
    return np.ascontiguousarray(image, dtype=np.uint8)
