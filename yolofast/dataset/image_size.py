"""Width and height from the headers of JPEG, PNG and BMP files, without decoding a pixel.

Enough for label statistics, which need sizes before any image library does. EXIF rotation is ignored, as it is when
labels are normalised by the stored size.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError

# Start-of-frame markers, C0 to CF without DHT (C4), JPG (C8) and DAC (CC).
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def image_sizes(paths: Sequence[str | Path]) -> npt.NDArray[np.int64]:
    """[n, 2] width and height in pixels."""
    return np.array([image_size(path) for path in paths], dtype=np.int64).reshape(-1, 2)


def image_size(path: str | Path) -> tuple[int, int]:
    """Width and height in pixels of one image."""
    try:
        with open(path, "rb") as file:
            size = _read_size(file)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path) from error
    if size is None or min(size) < 1:
        raise UserError("not a JPEG, PNG or BMP image, or cut short", where=path, fix="convert it, or save it again")
    return size


def _read_size(file: BinaryIO) -> tuple[int, int] | None:
    start = file.read(26)
    if start[:2] == b"\xff\xd8":
        file.seek(2)
        return _jpeg_size(file)
    if len(start) == 26 and start[:8] == b"\x89PNG\r\n\x1a\n":
        return int.from_bytes(start[16:20], "big"), int.from_bytes(start[20:24], "big")
    if len(start) == 26 and start[:2] == b"BM":
        width, height = (int.from_bytes(start[i : i + 4], "little", signed=True) for i in (18, 22))
        return width, abs(height)  # negative when rows run from the top
    return None


def _jpeg_size(file: BinaryIO) -> tuple[int, int] | None:
    """Walk the segments to the frame header; None if the file ends or goes astray first."""
    while file.read(1) == b"\xff":
        while (marker := file.read(1)) == b"\xff":  # any number of fill bytes may precede a marker
            pass
        segment = file.read(7)
        if len(segment) < 7:
            break
        if marker[0] in _JPEG_FRAMES:
            return int.from_bytes(segment[5:7], "big"), int.from_bytes(segment[3:5], "big")
        file.seek(int.from_bytes(segment[:2], "big") - 7, 1)
    return None
