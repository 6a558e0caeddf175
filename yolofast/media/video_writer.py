"""Videos of drawn detections, as MP4. A video can be played only once it is closed, so its writer always closes it."""

from pathlib import Path

import cv2

from yolofast.errors import UserError
from yolofast.media.frames import Video, quiet_opencv
from yolofast.pixels import Image

_CODEC = "mp4v"
"""MPEG-4: the one OpenCV's own packages can write everywhere."""


class VideoWriters:
    """One video per source. Of files read one after the other the last is open, of streams all are."""

    def __init__(self) -> None:
        self._open: dict[Path, tuple[cv2.VideoWriter, tuple[int, int]]] = {}

    def write(self, path: Path, image: Image, video: Video) -> None:
        height, width = image.shape[:2]
        if path not in self._open:
            if not video.live:  # the one before has ended
                self.close()
            self._open[path] = (_opened(path, video.fps, width, height), (width, height))
        writer, size = self._open[path]
        if (width, height) != size:  # a stream may change its size, a video file cannot
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
        raise UserError(f"a video of {width}×{height} pixels cannot be written", where=path, fix=fix)
    return writer
