"""Which video a frame belongs to, its number there and its time: what tracking needs to know of any source.

The images of a folder are the frames of one video. Their names are numbers where they can be: a gap in the numbers is a
gap in time. Videos state the time of each frame; streams are timed as they are read.
"""

import math
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from yolofast.errors import UserError
from yolofast.media.frames import Frame, Video
from yolofast.media.pictures import UniqueNames
from yolofast.media.sources import batches_of_several, images_of
from yolofast.media.streams import OnFault
from yolofast.track.formats.detections import USUAL_RATE
from yolofast.track.formats.mot import SEQINFO, SeqInfo, read_seqinfo

_NUMBER = re.compile(r"(\d+)(?!.*\d)")
_MOST_GAPS = 4
"""Numbers that are spread wider than this many times the images are no frame numbers, but times or identities."""
_LEAST_STEP = 1e-6
"""Seconds from a frame to the next, where a file states the same time twice."""


@dataclass(frozen=True)
class Place:
    """Of a frame."""

    video: str
    """The name its files get; unique among all sources of a run."""
    number: int
    """From 1."""
    time: float
    """In seconds, later than that of the frame before."""
    frame_rate: float
    length: int | None
    """Frames of the video in all, if known."""
    live: bool


class Timeline:
    """Places the frames of a run, given in the order of reading."""

    def __init__(self, images: Sequence[str] = (), frame_rate: float | None = None) -> None:
        """`images` are those of all folders; `frame_rate` that of folders, by default as `seqinfo.ini` says."""
        self._names, self._given_rate = UniqueNames(), frame_rate
        self._numbers = _numbers_by_folder(images)
        self._rates: dict[Path, float] = {}
        self._last: dict[str, tuple[int, float]] = {}
        self.repaired: set[str] = set()
        """Videos whose frames were not in order of time, or stated none."""

    def place(self, frame: Frame) -> Place:
        if frame.video is None:
            return self._of_image(Path(frame.name))
        video, rate = self._names.of(frame.name), frame.video.fps
        return self._checked(video, frame.number + 1, frame.time, rate, frame.video)

    def _of_image(self, path: Path) -> Place:
        folder = path.parent
        video = self._names.of(sequence_name(folder))
        if folder not in self._rates:
            self._rates[folder] = self._given_rate or _info(folder).frame_rate or USUAL_RATE
        rate, known = self._rates[folder], self._numbers.get(folder, {})
        number = known.get(path.name) or self._last.get(video, (0, 0.0))[0] + 1
        length = max(known.values(), default=None)
        return self._checked(video, number, (number - 1) / rate, rate, Video(video, rate, length))

    def _checked(self, video: str, number: int, time: float | None, rate: float, about: Video) -> Place:
        before, last = self._last.get(video, (0, -math.inf))
        if time is None or not math.isfinite(time) or time < last + _LEAST_STEP:
            self.repaired.add(video)
            time = last + max(number - before, 1) / rate if before else (number - 1) / rate
        number = max(number, before + 1)
        self._last[video] = (number, time)
        return Place(video, number, time, rate, about.length, about.live)


def sequence_name(folder: Path) -> str:
    """The images of `MOT17-02/img1` are those of `MOT17-02`."""
    folder = folder.absolute()
    return str(folder.parent if folder.name == _info(folder).images else folder)


def folder_of_images(source: str) -> str:
    """The images of a MOTChallenge sequence lie in a folder of it; anything else is its own source."""
    path = Path(source)
    if (path / SEQINFO).is_file() and (path / read_seqinfo(path / SEQINFO).images).is_dir():
        return str(path / read_seqinfo(path / SEQINFO).images)
    return source


def _info(folder: Path) -> SeqInfo:
    for place in (folder / SEQINFO, folder.parent / SEQINFO):
        if place.is_file():
            return read_seqinfo(place)
    return SeqInfo()


def _numbers_by_folder(images: Sequence[str]) -> Mapping[Path, dict[str, int]]:
    folders: dict[Path, list[str]] = {}
    for name in images:
        path = Path(name)
        folders.setdefault(path.parent, []).append(path.name)
    return {folder: frame_numbers(names) for folder, names in folders.items()}


def frame_numbers(names: Sequence[str]) -> dict[str, int]:
    """Of images in their order, from 1: by the last number in each name if those ascend, else one after the other."""
    found = [_NUMBER.search(Path(name).stem) for name in names]
    numbers = [int(one[1]) for one in found if one is not None]
    in_order = {name: place for place, name in enumerate(names, 1)}
    steps = [later - earlier for earlier, later in pairwise(numbers)]
    if len(numbers) < len(names) or len(names) < 2 or min(steps) < 1:
        return in_order
    step = math.gcd(*steps)
    if (numbers[-1] - numbers[0]) // step > _MOST_GAPS * len(names):
        return in_order
    return {name: (number - numbers[0]) // step + 1 for name, number in zip(names, numbers, strict=True)}


@dataclass(frozen=True)
class OpenSources:
    batches: Generator[list[Frame]]
    timeline: Timeline


def open_sources(
    sources: Sequence[str], batch: int, *, every: int = 1, frame_rate: float | None = None, on_fault: OnFault
) -> OpenSources:
    """Videos, folders of images, MOTChallenge sequences, streams and cameras; several are read in turn."""
    if frame_rate is not None and not 0 < frame_rate < math.inf:
        raise UserError(f"the frame rate is {frame_rate}", fix="give frames per second above 0")
    if not sources:
        raise UserError("no source is given", fix="name a video, a folder of images, a stream or a camera")
    named = [folder_of_images(source) for source in sources]
    if len(set(named)) < len(named):
        raise UserError("a source is given twice", fix="give each once")
    batches = batches_of_several(named, batch, every=every, on_fault=on_fault)
    return OpenSources(batches, Timeline([name for one in named for name in images_of(one)], frame_rate))
