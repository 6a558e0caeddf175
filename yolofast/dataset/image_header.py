"""Size, EXIF rotation and completeness of an image from its first and last bytes, without decoding a pixel.

Every start of a training run looks at every image, and decoding them all would take minutes. JPEG, PNG and BMP are read
here; WebP and TIFF are decoded whole. Pillow would need 44 instead of 19 µs for a JPEG. It decodes a PNG to find
its EXIF, warns of damaged EXIF, and takes the orientation from XMP, which OpenCV does not. A file damaged in its middle
is found by `require_decodable` of `image_facts` only.
"""

import io
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

import cv2

from yolofast.files.budget import DECODING, MAX_PIXELS, Budget, open_regular
from yolofast.files.other_formats import other_format
from yolofast.image_bytes import PNG_START, START_BYTES, TooCostlyError, decode_image, stored_size, tiff_number

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
_ORIENTATION_TAG = 0x0112
_SIDEWAYS = frozenset({5, 6, 7, 8})  # orientations that swap width and height
_CUT_SHORT = "ends before the image does"


class BadImageError(ValueError):
    """The file is no image we can read; the text says why."""


class HugeImageError(BadImageError):
    """The image has more pixels than are allowed."""


class OtherFormatError(BadImageError):
    """The image is of a format that is not read."""


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
        start = file.read(START_BYTES)
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


def announced_size(content: bytes) -> tuple[int, int]:
    """Width and height before it is turned, of JPEG, PNG, BMP and WebP; others are refused. Nothing is decoded."""
    file, start = io.BytesIO(content), content[:START_BYTES]
    file.seek(len(start))
    if start[:2] == b"\xff\xd8":
        header = _jpeg_header(file)
    elif start[:8] == PNG_START:
        header = _png_header(file)
    elif start[:2] == b"BM":
        header = _bmp_header(file, start)
    elif start[:4] == b"RIFF":
        header = ImageHeader(*(stored_size(lambda place, length: content[place : place + length]) or (0, 0)))
    else:
        raise BadImageError("is not JPEG, PNG, BMP or WebP")
    if min(header.width, header.height) < 1:
        raise BadImageError(f"is an image of {header.width}×{header.height} pixels")
    return header.width, header.height


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
    if len(start) < START_BYTES:
        raise TruncatedImageError(_CUT_SHORT)
    pixels_at, width, height, bits, compression = struct.unpack_from("<I4xii2xHI", start, 10)
    height = abs(height)  # negative when rows run from the top
    row_bytes = (width * bits + 31) // 32 * 4
    if compression == 0 and _size_in_reason(file, width, height) < pixels_at + row_bytes * height:
        raise TruncatedImageError(_CUT_SHORT)
    return ImageHeader(width, height)


def _header_by_decoding(file: BinaryIO, start: bytes) -> ImageHeader:
    """WebP and TIFF. Pixels come out turned already; the orientation is for messages."""

    def read(place: int, length: int) -> bytes:
        file.seek(place)
        return file.read(length)

    width, height = stored_size(read) or _unknown(start)
    _require_pixels_in_reason(width, height)
    size = _size_in_reason(file, width, height)
    with DECODING.hold(max(width * height, size // BYTES_HELD_AS_PIXEL)):
        content = read(0, size)
        width, height = decoded_size(content)
        return ImageHeader(width, height, exif_orientation(_webp_exif(content) if start[:4] == b"RIFF" else content))


def _unknown(start: bytes) -> NoReturn:
    if (name := other_format(start)) is not None:
        raise OtherFormatError(f"is {name}, which is not read, whatever its name says")
    raise BadImageError("is not an image that can be decoded: it is damaged, cut short or of an unknown format")


def decoded_size(content: bytes) -> tuple[int, int]:
    """Width and height as decoded and turned. From memory: OpenCV 5 fails to turn a TIFF that it reads from a file."""
    try:
        pixels = decode_image(content)
    except TooCostlyError as error:
        raise HugeImageError(str(error)) from None
    except cv2.error:  # such as more pixels than the library is willing to hold
        pixels = None
    if pixels is None:
        _unknown(content)
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
    value = tiff_number(lambda place, length: tiff[place : place + length], _ORIENTATION_TAG)
    return value if 1 <= value <= 8 else 1


def _exactly(file: BinaryIO, size: int) -> bytes:
    content = file.read(size)
    if len(content) < size:
        raise TruncatedImageError(_CUT_SHORT)
    return content
