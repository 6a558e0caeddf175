"""Whether every pixel of an image can be decoded, quietly: slow, so done on request only.

Libraries return None for a damaged file, or an image that is grey from the damage on. So the structure is checked too
(`image_header`, and the checksums of PNG here). A JPEG with flipped bits in its compressed data is not found.

OpenCV's decoders write to file descriptor 2, past Python and past OpenCV's own log level. `quiet_decoder` silences it;
a broken image becomes a fault with its name instead. Whatever else the process writes there meanwhile is lost too, so
only the decoding itself is wrapped.
"""

import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from yolofast.dataset.image_header import PNG_START, BadImageError, ImageHeader, decoded_size

_STDERR = 2


def require_decodable(content: bytes, header: ImageHeader) -> None:
    """Raises BadImageError if the bytes of an image do not give the pixels its header promises."""
    if content.startswith(PNG_START):
        _check_png(content)
    width, height = decoded_size(content)
    if (width, height) != (header.width, header.height):
        raise BadImageError(f"decodes to {width}×{height} pixels, but its header says {header.width}×{header.height}")


def _check_png(content: bytes) -> None:
    """Each chunk is its length, its name, that many bytes, and the checksum of name and bytes."""
    place = len(PNG_START)
    while place < len(content):
        end = place + 8 + int.from_bytes(content[place : place + 4], "big")
        if zlib.crc32(content[place + 4 : end]) != int.from_bytes(content[end : end + 4], "big"):
            raise BadImageError("is a PNG whose content does not fit its checksum")
        if content[place + 4 : place + 8] == b"IEND":
            return
        place = end + 4


class _Silence:
    """Shared by all threads, since the descriptor is: the first one in silences it, the last one out restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._saved: int | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._redirect()
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0 and self._saved is not None:
                    os.dup2(self._saved, _STDERR)
                    os.close(self._saved)
                    self._saved = None

    def _redirect(self) -> None:
        try:
            self._saved = os.dup(_STDERR)
        except OSError:  # a process without one has nothing to silence
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _STDERR)
        os.close(nowhere)


quiet_decoder = _Silence()
