"""Frames one by one: images of files, web addresses and standard input, and videos. Live streams: `streams.py`.

A damaged source raises `UserError` after what could be read of it, so a caller with several can report it and continue
with the next.
"""

import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import cv2
import numpy as np

from yolofast.errors import UserError
from yolofast.image_bytes import quiet_opencv
from yolofast.media.addresses import PATIENCE, unreadable, without_password
from yolofast.pixels import Image

_USUAL_FPS = 30.0
_ENOUGH = 0.9
"""Containers only estimate how many frames they hold; less than this share of them is a damaged video."""


@dataclass(frozen=True)
class Video:
    """What the frames of a video or stream have in common."""

    name: str
    fps: float
    """Of the frames that are used."""
    length: int | None
    """Frames in all, used or not, if that is known."""
    live: bool = False
    """A stream: others may run at the same time, and its length is unknown."""


@dataclass(frozen=True)
class Frame:
    image: Image
    name: str
    """The file, address or camera it comes from."""
    number: int = 0
    """Its place in the video, or of an image in its folder, from 0; frames that are not used count too."""
    video: Video | None = None
    """None for a single image."""
    time: float | None = None
    """Seconds since the beginning of the video, or since a stream was opened; None for a single image."""

    def __str__(self) -> str:
        if self.video is None:
            return self.name
        of = f"/{self.video.length}" if self.video.length else ""
        return f"{self.name} {self.number + 1}{of}"


class FrameSource(Protocol):
    def frames(self) -> Generator[Frame]: ...


@dataclass(frozen=True)
class SingleImage:
    name: str
    read: Callable[[], Image]
    """From a file, a web server or standard input."""
    number: int = 0
    """Its place in its folder."""

    def frames(self) -> Generator[Frame]:
        yield Frame(self.read(), self.name, self.number)


@dataclass(frozen=True)
class VideoFile:
    """A file, or the address of one, read as fast as frames are used."""

    name: str
    every: int = 1
    """Use every N-th frame only."""

    def frames(self) -> Generator[Frame]:
        name = without_password(self.name)
        reader = FrameReader(open_capture(self.name), name, self.every)
        yield from reader.frames()
        if not reader.read and "://" in self.name:
            raise unreadable(self.name)
        if not reader.read:
            raise UserError("is not a video, or is damaged", where=name, fix="convert it to MP4")
        if reader.read < reader.stated * _ENOUGH:
            raise UserError(f"is damaged: it ends after {reader.read} of {reader.stated} frames", where=name)


class FrameReader:
    """Every N-th frame of an open capture, which it releases at the end."""

    def __init__(self, capture: cv2.VideoCapture, name: str, every: int, *, live: bool = False) -> None:
        self._capture, self._name, self._every = capture, name, every
        self.stated = 0 if live else max(int(capture.get(cv2.CAP_PROP_FRAME_COUNT)), 0)
        """Frames that the container says it has; 0 if it does not."""
        self.read = 0
        fps = float(capture.get(cv2.CAP_PROP_FPS))
        fps = fps if 0 < fps < 1000 else _USUAL_FPS  # streams often state nothing, or nonsense
        self._video = Video(name, fps / every, self.stated or None, live)
        self._opened = time.monotonic()

    def frames(self) -> Generator[Frame]:
        try:
            while self._capture.grab():
                number = self.read
                self.read += 1
                if number % self._every:
                    continue
                got, image = self._capture.retrieve()
                if not got:
                    break
                yield Frame(np.asarray(image, np.uint8), self._name, number, self._video, self._time())
        finally:
            self._capture.release()

    def _time(self) -> float:
        """Of the frame just read. Streams state nothing reliable, and some of their frames are dropped: a clock counts.

        Where a container states no time either, OpenCV gives that of the frame's number.
        """
        if self._video.live:
            return time.monotonic() - self._opened
        return max(float(self._capture.get(cv2.CAP_PROP_POS_MSEC)) / 1000, 0.0)


def open_capture(name: str | int) -> cv2.VideoCapture:
    quiet_opencv()
    if isinstance(name, str) and "://" in name:
        wait = round(1000 * PATIENCE)
        limits = [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, wait, cv2.CAP_PROP_READ_TIMEOUT_MSEC, wait]
        capture = cv2.VideoCapture(name, cv2.CAP_ANY, limits)
    else:
        capture = cv2.VideoCapture(name)
    if not capture.isOpened():
        capture.release()
        if isinstance(name, int):
            fix = "check that it is plugged in and that no other program uses it"
            raise UserError(f"camera {name} cannot be opened", fix=fix)
        if "://" in name:
            raise unreadable(name)
        raise UserError("cannot be opened as a video", where=name, fix="check the name, or convert it to MP4")
    return capture


def standard_input(stream: BinaryIO | None = None) -> tuple[bytes, bool]:
    """Its first bytes, and whether they are text: names of files, not an image."""
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
