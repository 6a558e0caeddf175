"""Videos of drawn detections, as MP4. A video can be played only once it is closed, so its writer always closes it.

Until then it has a hidden name beside its own.
"""

from pathlib import Path
from typing import NamedTuple

import cv2

from yolofast.errors import UserError
from yolofast.files.atomic_file import name_beside, opened_new, remove_abandoned
from yolofast.image_bytes import quiet_opencv
from yolofast.media.frames import Video
from yolofast.pixels import Image

_CODEC = "mp4v"
"""MPEG-4: the one OpenCV's own packages can write everywhere."""


class VideoWriters:
    """One video per source. Of files read one after the other the last is open, of streams all are."""

    def __init__(self) -> None:
        self._open: dict[Path, _Unfinished] = {}

    def write(self, path: Path, image: Image, video: Video) -> None:
        height, width = image.shape[:2]
        if path not in self._open:
            if not video.live:  # the one before has ended
                self.close()
            self._open[path] = _begun(path, video.fps, width, height)
        begun = self._open[path]
        if (width, height) != begun.size:  # a stream may change its size, a video file cannot
            image = cv2.resize(image, begun.size)  # type: ignore[assignment]
        begun.writer.write(image)

    def close(self) -> None:
        for path, begun in self._open.items():
            begun.writer.release()
            try:
                begun.file.replace(path)
            except OSError as error:
                raise _cannot(error, path) from None
        self._open.clear()


class _Unfinished(NamedTuple):
    writer: cv2.VideoWriter
    size: tuple[int, int]
    file: Path


def _begun(path: Path, fps: float, width: int, height: int) -> _Unfinished:
    quiet_opencv()
    file = name_beside(path, path.suffix)  # OpenCV goes by the ending
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(path.parent, path.name)
        opened_new(file).close()
    except OSError as error:
        raise _cannot(error, path) from None
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter.fourcc(*_CODEC), fps, (width, height))
    if not writer.isOpened():
        file.unlink(missing_ok=True)
        fix = "check that the disk has room, or --nosave"
        raise UserError(f"a video of {width}×{height} pixels cannot be written", where=path, fix=fix)
    return _Unfinished(writer, (width, height), file)


def _cannot(error: OSError, path: Path) -> UserError:
    return UserError(f"cannot be written: {error.strerror}", where=path, fix="make room, or --nosave")
