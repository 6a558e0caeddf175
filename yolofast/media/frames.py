"""Pictures one by one, from wherever they come: files, films, standard input. Live streams are in `live.py`.

A source that turns out to be damaged raises `UserError`, after whatever could be read of it: whoever goes through
several of them reports it and goes on with the next.
"""

import os
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import cv2
import numpy as np

from yolofast.errors import UserError
from yolofast.media.addresses import fetch, unreadable, without_password
from yolofast.media.pictures import decode_picture, read_picture
from yolofast.pixels import Image

_USUAL_FPS = 30.0
_ENOUGH = 0.9
"""Containers only estimate how many pictures they hold; less than this share of them is a damaged film."""


@dataclass(frozen=True)
class Video:
    """What the pictures of a film or stream have in common."""

    name: str
    fps: float
    length: int | None
    """Pictures in all, if that is known; of those looked at."""
    live: bool = False
    """A stream: others may run beside it, and nobody knows when it ends."""


@dataclass(frozen=True)
class Frame:
    image: Image
    name: str
    """The file, address or camera it comes from."""
    number: int = 0
    """Its place in the film."""
    film: Video | None = None
    """None for a picture of its own."""

    def __str__(self) -> str:
        if self.film is None:
            return self.name
        of = f"/{self.film.length}" if self.film.length else ""
        return f"{self.name} {self.number + 1}{of}"


class FrameSource(Protocol):
    def frames(self) -> Generator[Frame]: ...


@dataclass(frozen=True)
class PictureFile:
    path: Path

    def frames(self) -> Generator[Frame]:
        yield Frame(read_picture(self.path), str(self.path))


@dataclass(frozen=True)
class PictureAddress:
    """A picture on a web server."""

    address: str

    def frames(self) -> Generator[Frame]:
        shown = without_password(self.address)
        yield Frame(decode_picture(fetch(self.address), shown), shown)


@dataclass(frozen=True)
class PictureBytes:
    """An encoded picture, as piped into standard input."""

    content: bytes
    name: str = "stdin"

    def frames(self) -> Generator[Frame]:
        yield Frame(decode_picture(self.content, "standard input"), self.name)


@dataclass(frozen=True)
class VideoFile:
    """Also an address of a film, which is read as fast as it is looked at."""

    name: str
    every: int = 1
    """Look at every so-manieth picture only."""

    def frames(self) -> Generator[Frame]:
        capture, name = open_capture(self.name), without_password(self.name)
        stated = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
        length = -(-stated // self.every) if stated > 0 else None
        film = Video(name, frames_per_second(capture) / self.every, length)
        read = 0
        try:
            while capture.grab():
                read += 1
                if (read - 1) % self.every:
                    continue
                got, image = capture.retrieve()
                if not got:
                    break
                yield Frame(np.asarray(image, np.uint8), name, (read - 1) // self.every, film)
        finally:
            capture.release()
        if not read and "://" in self.name:
            raise unreadable(self.name)
        if not read:
            raise UserError("is not a film, or is damaged", where=name, fix="convert it to MP4")
        if stated > 0 and read < stated * _ENOUGH:
            raise UserError(f"is damaged: it ends after {read} of {stated} pictures", where=name)


def quiet_opencv() -> None:
    """OpenCV and FFmpeg write complaints of their own to standard error; ours say what is wrong.

    FFmpeg heeds this when it is first used, so it comes before that.
    """
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_FATAL)


def open_capture(name: str | int) -> cv2.VideoCapture:
    quiet_opencv()
    capture = cv2.VideoCapture(name)
    if not capture.isOpened():
        capture.release()
        if isinstance(name, int):
            fix = "check that it is plugged in and that no other program uses it"
            raise UserError(f"camera {name} cannot be opened", fix=fix)
        if "://" in name:
            raise unreadable(name)
        raise UserError("cannot be opened as a film", where=name, fix="check the name, or convert it to MP4")
    return capture


def frames_per_second(capture: cv2.VideoCapture) -> float:
    """As stated; streams often state nothing, or nonsense."""
    stated = capture.get(cv2.CAP_PROP_FPS)
    return float(stated) if 0 < stated < 1000 else _USUAL_FPS


def standard_input(stream: BinaryIO | None = None) -> tuple[bytes, bool]:
    """What comes first there, and whether it is text: names, not a picture."""
    stream = stream or sys.stdin.buffer
    first = stream.read1(4096) if hasattr(stream, "read1") else stream.read(4096)
    try:
        first[:-4].decode() if len(first) == 4096 else first.decode()  # the last letter may be cut in two
    except UnicodeDecodeError:
        return first, False
    return first, b"\0" not in first


def lines_of(first: bytes, stream: BinaryIO) -> Generator[str]:
    """The lines of a stream whose beginning was read already, each as soon as it is there."""
    *whole, rest = first.split(b"\n")
    for line in whole:
        yield line.decode(errors="replace").strip()
    last = rest + stream.readline()
    while last:
        yield last.decode(errors="replace").strip()
        last = stream.readline()
