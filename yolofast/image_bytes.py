"""The bytes of an image file as pixels, by OpenCV, without what its libraries write to standard error.

OpenCV's own messages can be switched off, libpng's cannot: it complains of colour profiles that programs have written
for decades, and of every damaged chunk. So a PNG is looked through before: chunks that change no pixel are left out,
and one that libpng would refuse for its checksums or its end is refused here. Pixels are those OpenCV shows.

Before a decoder sees them, a header says what decoding would take. JPEG, PNG, BMP, WebP and TIFF are known.

OpenCV has a limit of its own, but reads it once, and a program may have imported it before. What is none of the five is
not decoded at all: OpenCV knows more formats, of which some take ten times as much as their pixels, or minutes.
"""

import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.files.budget import MAX_PIXELS, PIXELS_VARIABLE, Budget

Pixels = npt.NDArray[np.uint8]
"""[height, width, 3], blue, green, red."""
_DRAWN = (b"IHDR", b"PLTE", b"IDAT", b"acTL", b"fcTL", b"fdAT")
"""Chunks with the pixels, of animations too."""
_EXIF, _END, _EMPTY_END = b"eXIf", b"IEND", b"\0\0\0\0IEND\xaeB`\x82"
_OPTIONAL = 0x20
"""In the first letter of a chunk's name: what does not know it may leave it out."""
_AROUND = 12
"""Bytes of a chunk besides what it holds: length, name, checksum."""
Read = Callable[[int, int], bytes]
"""So many bytes from a place on, or fewer at the end."""
Size = tuple[int, int]
"""Width and height, as stored."""
PNG_START = b"\x89PNG\r\n\x1a\n"
START_BYTES = 34
"""Of a file: they tell its format."""

_HELD = 6
"""Bytes that decoding a pixel takes, if it takes no more."""
_SHOWN = 3
_MOST_PARTS = 500_000
_SCANS, _SCANNED = 20, 2**30
"""Scans of a JPEG, and pixels that all may visit beyond them: a scan of 40 bytes visits every pixel."""
_PIECE = 2**16
_JPEG_MARKER = re.compile(rb"\xff[^\x00\xff]")
_JPEG_SCAN = b"\xff\xda"
# C0 to CF without DHT (C4), JPG (C8) and DAC (CC).
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE, _JPEG_END, _JPEG_START_OF_SCAN = frozenset({0x01, *range(0xD0, 0xD9)}), 0xD9, 0xDA
_PNG_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Numbers of a pixel by the kind of colours."""
_BMP_OLD = 12
_WIDTH, _HEIGHT, _TILE_WIDTH, _TILE_HEIGHT = 0x0100, 0x0101, 0x0142, 0x0143
_BITS, _SAMPLES, _STRIP_ROWS, _MOST_BITS = 0x0102, 0x0115, 0x0116, 64
_TIFF_NUMBERS = {1: 1, 3: 2, 4: 4}
"""Types of a size, with their bytes."""
_TIFF_ENTRIES = 4096
"""Of a directory: libtiff refuses more."""


def decode_image(content: bytes) -> Pixels | None:
    """Three channels, turned as the EXIF entry says; None of what is no image, or damaged.

    Raises `cv2.error` or `MemoryError` where a header announces too many pixels.
    """
    if not require_cheap(content):
        return None
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


class TooCostlyError(MemoryError):
    """Decoding would take more than is allowed; the text says why."""


def require_cheap(content: bytes) -> bool:
    """False if it is none of the five formats, or has no size."""

    def read(place: int, length: int) -> bytes:
        return content[place : place + length]

    size = stored_size(read)
    if size is None:
        return False
    pixels = size[0] * size[1]
    _require(size, MAX_PIXELS)
    if content.startswith(b"\xff\xd8"):
        scans = content.count(_JPEG_SCAN)
        if scans > _SCANS + _SCANNED // max(pixels, 1):
            raise TooCostlyError(f"has {scans:,} scans of {size[0]}×{size[1]} pixels, more than are decoded")
        if scans > 1:  # a decoder then keeps what all have said so far
            _require(size, MAX_PIXELS * _HELD // (_SHOWN + _coefficient_bytes(read)))
    elif content.startswith(PNG_START):
        _require_png_data_in_reason(content, size)
    elif not content.startswith((b"BM", b"RIFF")):
        taken = pixels * _SHOWN + _tiff_part_bytes(read, size)
        _require(size, min(MAX_PIXELS * _HELD * pixels // max(taken, 1), MAX_PIXELS))
    return True


def _require_png_data_in_reason(content: bytes, size: Size) -> None:
    """Libpng unpacks all data of a picture, also what is behind its last row: a thousand bytes for each."""
    depth, colours = content[24], _PNG_SAMPLES.get(content[25], 4)
    needed = size[1] * (size[0] * depth * colours // 8 + 2)
    parts, data = Budget(_MOST_PARTS, lambda: TooCostlyError(f"has more than {_MOST_PARTS:,} parts")), 0
    for chunk in png_chunks(content):
        parts.spend()
        data += len(chunk.whole) if chunk.name == b"IDAT" else 0
    if data > 2 * needed + _PIECE:  # data that did not shrink, in many small chunks, takes a little more than needed
        raise TooCostlyError(f"has {data:,} bytes of data, more than {size[0]}×{size[1]} pixels need")


def _require(size: Size, allowed: int) -> None:
    if size[0] * size[1] > allowed:
        what = f"says it has {size[0]}×{size[1]} pixels, more than the {allowed:,} that are allowed"
        raise TooCostlyError(f"{what} ({PIXELS_VARIABLE})")


def stored_size(read: Read) -> Size | None:
    """None if it is none of the five formats, or has none."""
    start = read(0, START_BYTES)
    if start[4:8] == b"ftyp":  # AVIF, whose first four bytes may be those of any other
        return None
    for signature, size_of in _FORMATS.items():
        if start.startswith(signature):
            return size_of(read, start.ljust(START_BYTES, b"\0"))
    return None


def _jpeg(read: Read, _start: bytes) -> Size | None:
    frame = _jpeg_frame(read)
    return None if frame is None else struct.unpack(">xHH", frame[:5])[::-1]


def _coefficient_bytes(read: Read) -> int:
    """Of a pixel, of all components: two for each number, rounded up."""
    frame = _jpeg_frame(read) or b""
    factors = [(byte >> 4) * (byte & 15) for byte in frame[7::3]]
    return -(-2 * sum(factors) // max(factors, default=1)) if all(factors) else 2 * len(factors)


def _jpeg_frame(read: Read) -> bytes | None:
    """The frame header behind its length: precision, height, width, and three bytes for each component.

    Found as libjpeg finds it, which skips what is no marker.
    """
    place, parts = 2, Budget(_MOST_PARTS, lambda: TooCostlyError(f"has a header of more than {_MOST_PARTS:,} parts"))
    while len(piece := read(place, _PIECE)) > 1:
        parts.spend()
        found = _JPEG_MARKER.search(piece)
        if found is None:
            place += len(piece) - 1
            continue
        marker, place = piece[found.end() - 1], place + found.end()
        if marker in _JPEG_ALONE:
            continue
        length = int.from_bytes(read(place, 2), "big")
        if marker in (_JPEG_END, _JPEG_START_OF_SCAN) or length < 2:
            return None
        if marker in _JPEG_FRAMES:
            return frame if len(frame := read(place + 2, length - 2)) > 5 else None
        place += length
    return None


def _png(_read: Read, start: bytes) -> Size | None:
    return struct.unpack(">II", start[16:24]) if start[12:16] == b"IHDR" else None


def _bmp(_read: Read, start: bytes) -> Size:
    old = int.from_bytes(start[14:18], "little") == _BMP_OLD
    width, height = struct.unpack_from("<HH" if old else "<ii", start, 18)
    return width, abs(height)  # negative when rows run from the top


def _webp(_read: Read, start: bytes) -> Size | None:
    """By the three kinds of first parts."""
    kind = start[8:16]
    if kind == b"WEBPVP8X":
        return int.from_bytes(start[24:27], "little") + 1, int.from_bytes(start[27:30], "little") + 1
    if kind == b"WEBPVP8L":
        bits = int.from_bytes(start[21:25], "little")
        return bits % 2**14 + 1, (bits >> 14) % 2**14 + 1
    if kind == b"WEBPVP8 ":
        return int.from_bytes(start[26:28], "little") % 2**14, int.from_bytes(start[28:30], "little") % 2**14
    return None


def _tiff(read: Read, _start: bytes) -> Size | None:
    """Of the image, or of a tile that is larger: a decoder holds one."""
    size = tiff_number(read, _WIDTH), tiff_number(read, _HEIGHT)
    tile = tiff_number(read, _TILE_WIDTH), tiff_number(read, _TILE_HEIGHT)
    return max(size, tile, key=lambda sides: sides[0] * sides[1]) if min(size) else None


def _tiff_part_bytes(read: Read, size: Size) -> int:
    """Of a strip or a tile, which is unpacked whole."""
    rows = tiff_number(read, _STRIP_ROWS) or size[1]
    pixels = tiff_number(read, _TILE_WIDTH) * tiff_number(read, _TILE_HEIGHT) or size[0] * min(rows, size[1])
    bits = tiff_number(read, _BITS)
    if bits > _MOST_BITS:  # where they are written, one after the other
        bits = int.from_bytes(read(bits, 2), "little" if read(0, 2) == b"II" else "big")
    return pixels * max(tiff_number(read, _SAMPLES), 1) * bits // 8


def tiff_number(read: Read, tag: int) -> int:
    """In the first directory of a TIFF, which is also the form of an EXIF block; 0 if it is not there.

    The largest if it is there more than once.
    """
    order = read(0, 2)
    if order not in (b"II", b"MM"):
        return 0

    def number(content: bytes) -> int:
        return int.from_bytes(content, "little" if order == b"II" else "big")

    directory = number(read(4, 4))
    entries = min(number(read(directory, 2)), _TIFF_ENTRIES)
    table, found = read(directory + 2, 12 * entries), [0]
    for place in range(0, len(table), 12):
        if number(table[place : place + 2]) == tag:
            size = _TIFF_NUMBERS.get(number(table[place + 2 : place + 4]), 4)
            found.append(number(table[place + 8 : place + 8 + size]))
    return max(found)


_FORMATS: dict[bytes, Callable[[Read, bytes], Size | None]] = {
    b"\xff\xd8": _jpeg, PNG_START: _png, b"BM": _bmp, b"RIFF": _webp, b"II*\0": _tiff, b"MM\0*": _tiff,
}  # fmt: skip
"""A BigTIFF is for files over 4 GB, which are too large."""
