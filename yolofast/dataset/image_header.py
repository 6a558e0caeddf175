"""Size, EXIF rotation and completeness of an image from its first and last bytes, without decoding a pixel.

Every start of a training run looks at every image, and decoding them all would take minutes. JPEG, PNG and BMP are read
here; images of other formats are decoded whole. Pillow would need 44 instead of 19 µs for a JPEG, decodes a PNG to find
its EXIF, warns of damaged EXIF, and takes the orientation from XMP, which OpenCV does not. A file damaged in its middle
is found by `require_decodable` of `image_facts` only.
"""

import os
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import cv2

from yolofast.files.budget import DECODING, MAX_PIXELS, Budget
from yolofast.files.yaml_file import open_regular
from yolofast.image_bytes import PNG_START, decode_image

_MOST_BYTES = 2**30
_MOST_PARTS = 500_000
"""A PNG of all the pixels that are allowed, and of noise, has 100,000 parts."""
_BYTES_PER_PIXEL, _OTHER_BYTES = 16, 2**26
"""Four numbers of 32 bits; EXIF, colour profiles, thumbnails."""
BYTES_HELD_AS_PIXEL = 3

# Start-of-frame markers, C0 to CF without DHT (C4), JPG (C8) and DAC (CC).
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_END, _JPEG_START_OF_SCAN, _JPEG_EXIF = 0xD9, 0xDA, 0xE1
_JPEG_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")
"""Other than those that are inside a scan."""
_WIDTH_TAG, _HEIGHT_TAG, _ORIENTATION_TAG = 0x0100, 0x0101, 0x0112
_TIFF_SHORT = 3
_SIDEWAYS = frozenset({5, 6, 7, 8})  # orientations that swap width and height
_BMP_HEADER = 34
_CUT_SHORT = "ends before the image does"


class BadImageError(ValueError):
    """The file is no image we can read; the text says why."""


class HugeImageError(BadImageError):
    """The image has more pixels than are allowed."""


class TruncatedImageError(BadImageError):
    """The file ends before the image does."""


@dataclass(frozen=True)
class ImageHeader:
    width: int
    """As shown, that is after the EXIF rotation, as `cv2.imread` gives it."""
    height: int
    orientation: int = 1
    """EXIF's number, 1 to 8; 1 is upright."""


def read_image_header(path: str | Path) -> ImageHeader:
    """Raises OSError if the file cannot be read and BadImageError if it is not a whole image."""
    with open_regular(path) as file:
        start = file.read(_BMP_HEADER)
        if start[:2] == b"\xff\xd8":
            header = _jpeg_header(file)
        elif start[:8] == PNG_START:
            header = _png_header(file)
        elif start[:2] == b"BM":
            header = _bmp_header(file, start)
        else:
            header = _header_by_decoding(file, start)
    if min(header.width, header.height) < 1:
        raise BadImageError(f"is an image of {header.width}×{header.height} pixels")
    _require_pixels_in_reason(header.width, header.height)
    return header


def _require_pixels_in_reason(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise HugeImageError(f"says it has {width}×{height} pixels, more than the {MAX_PIXELS:,} that are allowed")


def _size_in_reason(file: BinaryIO, width: int, height: int) -> int:
    """Bytes of the file, at whose end it then is."""
    size = file.seek(0, os.SEEK_END)
    if size > _MOST_BYTES:
        raise BadImageError(f"has {size:,} bytes, more than the {_MOST_BYTES:,} that are allowed")
    if size > (width * height or MAX_PIXELS) * _BYTES_PER_PIXEL + _OTHER_BYTES:
        raise BadImageError(f"has {size:,} bytes, far more than {width}×{height} pixels need")
    return size


def _parts() -> Budget:
    return Budget(_MOST_PARTS, lambda: BadImageError(f"has a header of more than {_MOST_PARTS:,} parts"))


def _turned(width: int, height: int, orientation: int) -> ImageHeader:
    """The header of an image that is stored with this width and height."""
    shown = (height, width) if orientation in _SIDEWAYS else (width, height)
    return ImageHeader(*shown, orientation)


def _jpeg_header(file: BinaryIO) -> ImageHeader:
    """Walks the segments to the frame header; EXIF, if any, comes before it."""
    file.seek(2)
    orientation, parts = 1, _parts()
    while _exactly(file, 1) == b"\xff":
        while (marker := _exactly(file, 1)[0]) == 0xFF:  # any number of fill bytes may precede a marker
            parts.spend()
        parts.spend()
        size = 0 if marker == _JPEG_END else int.from_bytes(_exactly(file, 2), "big") - 2
        if size < 0:
            break
        if marker in (_JPEG_END, _JPEG_START_OF_SCAN):
            raise BadImageError("is a JPEG without a frame header")
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">xHH", _exactly(file, 5))
            _require_jpeg_end(file, width, height)
            return _turned(width, height, orientation)
        if marker != _JPEG_EXIF:
            file.seek(size, os.SEEK_CUR)
        elif (content := _exactly(file, size))[:6] == b"Exif\0\0":
            orientation = exif_orientation(content[6:])
    raise BadImageError("is a JPEG with a damaged header")


def _require_jpeg_end(file: BinaryIO, width: int, height: int) -> None:
    """Most files end in the end marker; where something follows it, the whole file is searched for it."""
    size = _size_in_reason(file, width, height)
    file.seek(-2, os.SEEK_CUR)
    if file.read(2) == b"\xff\xd9":
        return
    with DECODING.hold(size // BYTES_HELD_AS_PIXEL):
        file.seek(0)
        content, place, parts = file.read(), 2, _parts()
        # A thumbnail's own end marker is inside a segment, and is skipped.
        while (found := _JPEG_MARKER.search(content, place)) is not None:
            if content[found.end() - 1] == _JPEG_END:
                return
            place = found.end() + max(2, int.from_bytes(content[found.end() : found.end() + 2], "big"))
            parts.spend()
    raise TruncatedImageError(_CUT_SHORT)


def _png_header(file: BinaryIO) -> ImageHeader:
    """The first chunk holds the size; EXIF may be anywhere, so all chunks are visited."""
    file.seek(16)
    width, height = struct.unpack(">II", _exactly(file, 8))
    file.seek(8)
    orientation, parts = 1, _parts()
    while True:
        parts.spend()
        length, kind = struct.unpack(">I4s", _exactly(file, 8))
        if kind == b"eXIf" and length < _OTHER_BYTES:
            orientation = exif_orientation(_exactly(file, length))
            length = 0
        file.seek(length + 4, os.SEEK_CUR)  # with the chunk's checksum
        if kind == b"IEND":
            _size_in_reason(file, width, height)
            return _turned(width, height, orientation)


def _bmp_header(file: BinaryIO, start: bytes) -> ImageHeader:
    if len(start) < _BMP_HEADER:
        raise TruncatedImageError(_CUT_SHORT)
    pixels_at, width, height, bits, compression = struct.unpack_from("<I4xii2xHI", start, 10)
    height = abs(height)  # negative when rows run from the top
    row_bytes = (width * bits + 31) // 32 * 4
    if compression == 0 and _size_in_reason(file, width, height) < pixels_at + row_bytes * height:
        raise TruncatedImageError(_CUT_SHORT)
    return ImageHeader(width, height)


def _header_by_decoding(file: BinaryIO, start: bytes) -> ImageHeader:
    """WebP, TIFF, GIF and whatever else is known. Pixels come out turned already; the orientation is for messages."""

    def read(place: int, length: int) -> bytes:
        file.seek(place)
        return file.read(length)

    is_webp = start[:4] == b"RIFF"
    if start[:4] == b"GIF8":
        width, height = struct.unpack("<HH", start[6:10].ljust(4, b"\0"))
    else:
        width, height = _webp_size(start) if is_webp else (_tiff_value(read, tag) for tag in (_WIDTH_TAG, _HEIGHT_TAG))
    _require_pixels_in_reason(width, height)
    size = _size_in_reason(file, width, height)
    # Of other formats nothing is known, so they are decoded alone.
    with DECODING.hold(max(width * height or MAX_PIXELS, size // BYTES_HELD_AS_PIXEL)):
        content = read(0, size)
        width, height = decoded_size(content)
        return ImageHeader(width, height, exif_orientation(_webp_exif(content) if is_webp else content))


def _webp_size(start: bytes) -> tuple[int, int]:
    """By the three kinds of first parts; 0 if it is none of them."""
    if start[12:16] == b"VP8X":
        return int.from_bytes(start[24:27], "little") + 1, int.from_bytes(start[27:30], "little") + 1
    if start[12:16] == b"VP8L":
        bits = int.from_bytes(start[21:25], "little")
        return bits % 2**14 + 1, (bits >> 14) % 2**14 + 1
    if start[12:16] == b"VP8 ":
        return int.from_bytes(start[26:28], "little") % 2**14, int.from_bytes(start[28:30], "little") % 2**14
    return 0, 0


def decoded_size(content: bytes) -> tuple[int, int]:
    """Width and height as decoded and turned. From memory: OpenCV 5 fails to turn a TIFF that it reads from a file."""
    try:
        pixels = decode_image(content)
    except cv2.error:  # such as more pixels than the library is willing to hold
        pixels = None
    if pixels is None:
        raise BadImageError("is not an image that can be decoded: it is damaged, cut short or of an unknown format")
    height, width = pixels.shape[:2]
    return width, height


def _webp_exif(content: bytes) -> bytes:
    """The chunk called EXIF; chunks are a name, a length and that many bytes, padded to an even number."""
    place = 12
    while place + 8 <= len(content):
        size = int.from_bytes(content[place + 4 : place + 8], "little")
        if content[place : place + 4] == b"EXIF":
            return content[place + 8 : place + 8 + size].removeprefix(b"Exif\0\0")
        place += 8 + size + size % 2
    return b""


def exif_orientation(tiff: bytes) -> int:
    """The orientation in an EXIF block; 1, upright, if it has none or a wrong one, which decoders ignore too."""
    value = _tiff_value(lambda place, length: tiff[place : place + length], _ORIENTATION_TAG)
    return value if 1 <= value <= 8 else 1


def _tiff_value(read: Callable[[int, int], bytes], tag: int) -> int:
    """A number in the first directory of a TIFF, which is also the form of an EXIF block; 0 if it is not there.

    `read` gives so many bytes from a place on.
    """
    order = read(0, 2)
    if order not in (b"II", b"MM"):
        return 0

    def number(place: int, size: int) -> int:
        return int.from_bytes(read(place, size), "little" if order == b"II" else "big")

    directory = number(4, 4)
    for entry in range(min(number(directory, 2), 1000)):
        place = directory + 2 + 12 * entry
        if number(place, 2) == tag:
            return number(place + 8, 2 if number(place + 2, 2) == _TIFF_SHORT else 4)
    return 0


def _exactly(file: BinaryIO, size: int) -> bytes:
    content = file.read(size)
    if len(content) < size:
        raise TruncatedImageError(_CUT_SHORT)
    return content
