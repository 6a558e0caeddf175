"""The files of `shapes-video`: synthetic scenes as MOTChallenge sequences, and the `sequences.yaml` that names them.

    SHAPES-01/img1/000001.jpg …       or SHAPES-01.mp4
    SHAPES-01/gt/gt.txt               classes from 0 as in `shapes`; boxes and visibility of what can be seen
    SHAPES-01/seqinfo.ini
    SHAPES-01/times.txt               seconds of each frame, where frames are missing

The truth has a row wherever a pixel is visible; those of which less than 30 % is are marked 0, so nobody has to find
them. A sequence depends on its number and the settings of a scene only: fewer frames are the beginning of more.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

import cv2

from yolofast.dataset.shapes.made_once import check_seed, make_once, resolved
from yolofast.dataset.shapes.moving import VERSION, MovingScene, MovingShape, frame_times
from yolofast.dataset.shapes.outline import NAMES
from yolofast.dataset.shapes.paint import Pixels
from yolofast.errors import UserError, shorten
from yolofast.track.formats.mot import SEQINFO, TIMES, write_mot, write_seqinfo
from yolofast.track.formats.sequence import Sequence, make_sequence
from yolofast.track.formats.sequences_yaml import FILE_NAME, write_sequences_yaml

_HEADER = "shapes-video, made by yolofast:"
_JPEG_QUALITY = 90
_CODEC = "mp4v"
_AT_ONCE = 64
"""Frames that wait to be written into a video."""
_LIMITS = {
    "sequences": (1, 999), "frames": (1, 999_999), "width": (64, 4096), "height": (64, 4096), "fps": (0.1, 1000),
    "drop": (0, 0.95), "shake": (0, 100), "objects": (1, 200),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ShapesVideo:
    """What is to be made; raises `UserError` for values out of range."""

    sequences: int = 3
    frames: int = 150
    width: int = 320
    height: int = 240
    fps: float = 30.0
    drop: float = 0.0
    """Share of frames that are missing."""
    shake: float = 0.0
    """Pixels the camera moves at most, to each side."""
    objects: int = 6
    video: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        for name, (least, most) in _LIMITS.items():
            if not least <= getattr(self, name) <= most:
                what = f"{name} is {shorten(getattr(self, name))}"
                raise UserError(what, fix=f"give a number from {least:g} to {most:,g}")

    @property
    def names(self) -> list[str]:
        return [f"SHAPES-{number:02d}" for number in range(1, self.sequences + 1)]

    def write(self, folder: Path) -> None:
        for number, name in enumerate(self.names):
            self._write_sequence(folder, number, name)
        write_sequences_yaml(folder / FILE_NAME, NAMES, self.names, self._comment())

    def is_complete(self, folder: Path) -> bool:
        if _first_line(folder) != f"# {self._comment()}":
            return False
        try:
            return all(self._is_there(folder, name) for name in self.names)
        except OSError:
            return False

    def is_such(self, folder: Path) -> bool:
        return _first_line(folder).startswith(f"# {_HEADER}")

    def _comment(self) -> str:
        settings = ", ".join(f"{field.name} {getattr(self, field.name)}" for field in fields(self))
        return f"{_HEADER} {settings}, version {VERSION}"

    def _is_there(self, folder: Path, name: str) -> bool:
        if not (folder / name / "gt" / "gt.txt").is_file():
            return False
        if self.video:
            return (folder / f"{name}.mp4").is_file()
        with os.scandir(folder / name / "img1") as entries:
            return sum(entry.stat().st_size > 0 for entry in entries) == self.frames

    def _write_sequence(self, folder: Path, number: int, name: str) -> None:
        own = folder / name
        own.mkdir()
        scene = MovingScene(self.seed, number, self.width, self.height, self.objects, self.shake)
        times = frame_times(self.seed, number, self.frames, self.fps, self.drop).tolist()
        drawn = _drawn(scene, times)
        truth = self._write_video(folder, name, drawn) if self.video else _write_images(own / "img1", drawn)
        sequence = self._sequence(name, truth)
        write_mot(own / "gt" / "gt.txt", sequence, "truth")
        images = (f"../{name}.mp4", ".mp4") if self.video else ("img1", ".jpg")
        write_seqinfo(own / SEQINFO, sequence, *images)
        if self.drop:
            (own / TIMES).write_bytes("".join(f"{seconds:.6f}\n" for seconds in times).encode())

    def _write_video(
        self, folder: Path, name: str, drawn: Iterator[tuple[Pixels, list[MovingShape]]]
    ) -> list[list[MovingShape]]:
        path = folder / f"{name}.mp4"
        rate = self.fps * (1 - self.drop)
        writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*_CODEC), rate, (self.width, self.height))
        if not writer.isOpened():
            raise UserError("a video cannot be written", where=path, fix="omit --video: images need no codec")
        truth = []
        try:
            for image, shapes in drawn:
                writer.write(image)
                truth.append(shapes)
        finally:
            writer.release()
        return truth

    def _sequence(self, name: str, truth: list[list[MovingShape]]) -> Sequence:
        rows = [(frame, shape) for frame, shapes in enumerate(truth, 1) for shape in shapes]
        boxes = [(x, y, x + w, y + h) for x, y, w, h in (shape.box for _, shape in rows)]
        return make_sequence(
            name,
            frame=[frame for frame, _ in rows],
            id=[shape.id for _, shape in rows],
            box=boxes,
            label=[shape.label for _, shape in rows],
            mark=[shape.counts for _, shape in rows],
            visibility=[shape.visibility for _, shape in rows],
            length=self.frames,
            frame_rate=self.fps,
            width=self.width,
            height=self.height,
            classes=dict(enumerate(NAMES)),
        )


def make_shapes_video(folder: str | Path, request: ShapesVideo) -> Path:
    """Makes the sequences unless they are there already; returns their `sequences.yaml`."""
    return make_once(folder, request) / FILE_NAME


def is_made(folder: str | Path, request: ShapesVideo) -> bool:
    """Whether `make_shapes_video` would find nothing to do."""
    return request.is_complete(resolved(folder))


def _drawn(scene: MovingScene, times: list[float]) -> Iterator[tuple[Pixels, list[MovingShape]]]:
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        for start in range(0, len(times), _AT_ONCE):
            yield from pool.map(scene.frame, times[start : start + _AT_ONCE])


def _write_images(folder: Path, drawn: Iterator[tuple[Pixels, list[MovingShape]]]) -> list[list[MovingShape]]:
    folder.mkdir()
    truth = []
    for number, (image, shapes) in enumerate(drawn, 1):
        _, jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
        (folder / f"{number:06d}.jpg").write_bytes(jpeg.tobytes())
        truth.append(shapes)
    return truth


def _first_line(folder: Path) -> str:
    try:
        with (folder / FILE_NAME).open(encoding="utf-8", errors="replace") as file:
            return file.readline().rstrip("\n")
    except OSError:
        return ""
