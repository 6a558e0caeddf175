"""What is known of every image file of a split: size, modification time, width and height, and what is wrong with it.

Headers are enough for that, unless decoding is requested, which is slow. What is known of an unchanged file is not
found out again.

Libraries return None for a damaged file, or an image that is grey from the damage on. So decoding checks the structure
too (`image_header`, and the checksums of PNG here). A JPEG with flipped bits in its compressed data is not found.

OpenCV's decoders write to file descriptor 2, past Python and past OpenCV's own log level. `quiet_decoder` silences it;
a broken image becomes a fault with its name instead. Whatever else the process writes there meanwhile is lost too, so
only the decoding itself is wrapped.
"""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from yolofast.dataset.faults import Fault, FaultKind
from yolofast.dataset.image_header import (
    BYTES_HELD_AS_PIXEL,
    BadImageError,
    HugeImageError,
    ImageHeader,
    OtherFormatError,
    TruncatedImageError,
    decoded_size,
    read_image_header,
)
from yolofast.files.budget import DECODING, LARGEST_IMAGE, PIXELS_VARIABLE, open_regular, state_of
from yolofast.files.other_formats import HOW_TO_CONVERT
from yolofast.files.threads import in_threads
from yolofast.image_bytes import PNG_START, png_chunks
from yolofast.image_index import Ints

SMALLEST_SIDE = 10
_MISSING = (-1, -1)
_UPRIGHT = 1
_STDERR = 2


@contextmanager
def whole_image(image: str, header: ImageHeader) -> Iterator[bytes]:
    """Its bytes, to be decoded as soon as other threads leave room for the pixels."""
    with open_regular(image) as file:
        size = file.seek(0, os.SEEK_END)
        if size > LARGEST_IMAGE:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, more than the {LARGEST_IMAGE:,} that are allowed")
        file.seek(0)
        with DECODING.hold(max(header.width * header.height, size // BYTES_HELD_AS_PIXEL)):
            yield file.read()


def require_decodable(content: bytes, header: ImageHeader) -> None:
    """Raises BadImageError if the bytes of an image do not give the pixels its header promises."""
    if content.startswith(PNG_START):
        _check_png(content)
    width, height = decoded_size(content)
    if (width, height) != (header.width, header.height):
        raise BadImageError(f"decodes to {width}×{height} pixels, but its header says {header.width}×{header.height}")


def _check_png(content: bytes) -> None:
    if not all(chunk.is_whole for chunk in png_chunks(content)):
        raise BadImageError("is a PNG whose content does not fit its checksum")


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


@dataclass(frozen=True)
class KnownImage:
    """An image as an earlier reading found it; true while its stamp is the same."""

    stamp: tuple[int, int]
    size: tuple[int, int]
    fault: Fault | None


class Known(Protocol):
    def get(self, image: str, /) -> KnownImage | None: ...


@dataclass(frozen=True)
class Look:
    """How to look at images: at every pixel or only at headers, and what an earlier look of this kind found."""

    decode: bool = False
    known: Known | None = None


def file_stamps(images: list[str]) -> Ints:
    """[N, 2] bytes and modification time in nanoseconds; -1 for a file that is not there."""
    return np.array(in_threads(_stamp, images), dtype=np.int64).reshape(-1, 2)


def read_image_facts(images: list[str], stamps: Ints, look: Look) -> tuple[Ints, list[Fault]]:
    """[N, 2] width and height as shown, 0 where the file is no image; and what is wrong with the images.

    `stamps` are those of the images, taken before.
    """
    stamp_of = dict(zip(images, map(tuple, stamps.tolist()), strict=True))

    def facts(image: str) -> tuple[tuple[int, int], Fault | None]:
        known = None if look.known is None else look.known.get(image)
        if known is not None and known.stamp == stamp_of[image]:
            return known.size, known.fault
        return _look_at(image, look.decode)

    with quiet_decoder():
        found = in_threads(facts, images)
    sizes = np.array([size for size, _ in found], dtype=np.int64).reshape(-1, 2)
    return sizes, [fault for _, fault in found if fault is not None]


def _stamp(image: str) -> tuple[int, int]:
    return state_of(image) or _MISSING


def _look_at(image: str, decode: bool) -> tuple[tuple[int, int], Fault | None]:
    try:
        header = read_image_header(image)
        if decode:
            with whole_image(image, header) as content:
                require_decodable(content, header)
    except (OSError, BadImageError) as error:
        return (0, 0), image_fault(image, error)
    return (header.width, header.height), _header_fault(image, header)


def image_fault(image: str, error: OSError | BadImageError) -> Fault:
    """Why an image cannot be used."""
    if isinstance(error, FileNotFoundError):
        kind, what, fix = FaultKind.MISSING_IMAGE, "no such image", "restore it, or remove it from the list"
    elif isinstance(error, OSError):
        kind, what = FaultKind.UNREADABLE, f"cannot be read: {error.strerror}"
        fix = "check the file and its permissions"
    elif _stamp(image)[0] == 0:
        kind, what, fix = FaultKind.EMPTY_FILE, "is an empty file", "copy it again, or remove it"
    elif isinstance(error, OtherFormatError):
        kind, what, fix = FaultKind.UNSUPPORTED, str(error), HOW_TO_CONVERT
    elif isinstance(error, TruncatedImageError):
        kind, what, fix = FaultKind.TRUNCATED, str(error), "copy it again, or remove it"
    elif isinstance(error, HugeImageError):
        kind, what = FaultKind.UNREADABLE, str(error)
        fix = f"make it smaller, or cut it into tiles; {PIXELS_VARIABLE}=NUMBER in the environment allows more"
    else:
        kind, what, fix = FaultKind.UNREADABLE, str(error), "convert it to JPEG or PNG, or remove it"
    return Fault(kind=kind, where=image, what=what, fix=fix, image=image)


def _header_fault(image: str, header: ImageHeader) -> Fault | None:
    if min(header.width, header.height) < SMALLEST_SIDE:
        what = f"is {header.width}×{header.height} pixels; the smallest side allowed is {SMALLEST_SIDE}"
        return Fault(kind=FaultKind.TOO_SMALL, where=image, what=what, fix="remove it", image=image)
    if header.orientation != _UPRIGHT:
        what = f"is shown rotated or mirrored by its EXIF orientation {header.orientation}; labels must fit that view"
        fix = "look at it with its boxes; to be sure save it upright, without EXIF"
        return Fault(kind=FaultKind.ROTATED, where=image, what=what, fix=fix, fatal=False, image=image)
    return None
