"""Films of what was seen, as MP4. A film can be played only once it was closed, so its writer always closes it."""

from pathlib import Path

import cv2

from yolofast.errors import UserError
from yolofast.media.frames import Video, quiet_opencv
from yolofast.pixels import Image

_CODEC = "mp4v"
"""MPEG-4: the one OpenCV's own packages can write everywhere."""


class VideoWriters:
    """One film per source. Of films read one after the other the last is open, of streams all are."""

    def __init__(self) -> None:
        self._open: dict[Path, tuple[cv2.VideoWriter, tuple[int, int]]] = {}

    def write(self, path: Path, image: Image, film: Video) -> None:
        height, width = image.shape[:2]
        if path not in self._open:
            if not film.live:  # the one before has ended
                self.close()
            self._open[path] = (_opened(path, film.fps, width, height), (width, height))
        writer, size = self._open[path]
        if (width, height) != size:  # a stream that changes its format; a film cannot
            image = cv2.resize(image, size)  # type: ignore[assignment]
        writer.write(image)

    def close(self) -> None:
        for writer, _ in self._open.values():
            writer.release()
        self._open.clear()


def _opened(path: Path, fps: float, width: int, height: int) -> cv2.VideoWriter:
    quiet_opencv()
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*_CODEC), fps, (width, height))
    if not writer.isOpened():
        fix = "check that the disk has room, or --nosave"
        raise UserError(f"a film of {width}×{height} pixels cannot be written", where=path, fix=fix)
    return writer
