"""Which video a frame belongs to, its number there and its time: what tracking needs to know of any source.

The images of a folder are the frames of one video. Their names are numbers where they can be: a gap in the numbers is a
gap in time; or `times.txt` states their times. Videos state the time of each frame, unless a sequence with `times.txt`
is made of them; streams are timed as they are read.
"""

import math
import os
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from yolofast.errors import UserError, shorten
from yolofast.media.frames import Frame, Video
from yolofast.media.pictures import UniqueNames
from yolofast.media.sources import batches_of_several, images_of, source_name
from yolofast.media.streams import OnFault
from yolofast.track.formats.detections import USUAL_RATE
from yolofast.track.formats.mot import SEQINFO, TIMES, SeqInfo, read_seqinfo, read_times
from yolofast.track.formats.sequence import Floats

_NUMBER = re.compile(r"(\d+)(?!.*\d)")
_MOST_GAPS = 4
"""Numbers that are spread wider than this many times the images are no frame numbers, but times or identities."""
_LEAST_STEP = 1e-6
"""Seconds from a frame to the next, where a file states the same time twice."""


@dataclass(frozen=True)
class FramePlace:
    """Of a frame."""

    video: str
    """The name its files get; unique among all sources of a run."""
    number: int
    """From 1."""
    time: float
    """In seconds, later than that of the frame before."""
    frame_rate: float
    """Frames a second that are used."""
    length: int | None
    """Frames of the video in all, if known."""
    live: bool
    every: int = 1
    """One of so many frames is used; `number` counts them all."""

    @property
    def numbers_per_second(self) -> float:
        return self.frame_rate * self.every


class FrameTimeline:
    """Places the frames of a run, given in the order of reading."""

    def __init__(self, images: Sequence[str] = (), frame_rate: float | None = None, every: int = 1) -> None:
        """`images` are those of all folders; `frame_rate` that of folders, by default as `seqinfo.ini` says.

        `every`: the sources give every N-th frame only; numbers and times stay those of the video.
        """
        self._names, self._given_rate, self._every = UniqueNames(), frame_rate, every
        self._numbers = _numbers_by_folder(images)
        self._rates: dict[Path, float] = {}
        self._times: dict[Path, Floats | None] = {}
        self._last: dict[str, tuple[int, float]] = {}
        self.repaired: set[str] = set()
        """Videos whose frames were not in order of time, or stated none."""
        self.lengths: dict[str, tuple[int, int]] = {}
        """Of sequences with another number of images than their `seqinfo.ini` says: found, and stated."""

    def place(self, frame: Frame) -> FramePlace:
        if frame.video is None:
            return self._of_image(Path(frame.name), frame.number)
        video, rate = self._names.of(frame.name), frame.video.fps * self._every
        path, time = Path(frame.name), frame.time
        times = None if frame.video.live else self._of_video(path)
        if times is not None and frame.number < len(times):
            time, rate = float(times[frame.number]), self._rates.get(path, rate)
        return self._checked(video, frame.number + 1, time, rate, frame.video)

    def _of_video(self, path: Path) -> Floats | None:
        """`times.txt` of the sequence whose images this video is: most video files can only hold even times."""
        if path not in self._times:
            folder = path.with_suffix("")
            if not (folder / TIMES).is_file() or not (folder / SEQINFO).is_file() or self._given_rate:
                self._times[path] = None
            else:
                info = read_seqinfo(folder / SEQINFO)
                is_own = os.path.normpath(folder / info.images) == os.path.normpath(path)
                self._times[path] = read_times(folder, info.length) if is_own else None
                if info.frame_rate:
                    self._rates[path] = info.frame_rate
        return self._times[path]

    def _of_image(self, path: Path, place: int) -> FramePlace:
        folder = path.parent
        video = self._names.of(sequence_name(folder))
        if is_new := folder not in self._rates:
            self._rates[folder] = self._given_rate or _info(folder).frame_rate or USUAL_RATE
            self._times[folder] = None if self._given_rate else read_times(_info_folder(folder), _info(folder).length)
        rate, times, known = self._rates[folder], self._times[folder], self._numbers.get(folder, {})
        number = known.get(path.name) or max(place, self._last.get(video, (0, 0.0))[0]) + 1
        length, stated = max(known.values(), default=None), _info(folder).length if is_new else None
        if length is not None and stated is not None and length != stated:
            self.lengths[video] = length, stated
        time = (number - 1) / rate if times is None or number > len(times) else float(times[number - 1])
        return self._checked(video, number, time, rate, Video(video, rate, length))

    def _checked(self, video: str, number: int, time: float | None, rate: float, about: Video) -> FramePlace:
        before, last = self._last.get(video, (0, -math.inf))
        if time is None or not math.isfinite(time) or time < last + _LEAST_STEP:
            self.repaired.add(video)
            time = last + max(number - before, 1) / rate if before else (number - 1) / rate
        number = max(number, before + 1)
        self._last[video] = (number, time)
        return FramePlace(video, number, time, rate / self._every, about.length, about.live, self._every)


def sequence_name(folder: Path) -> str:
    """The images of `MOT17-02/img1` are those of `MOT17-02`."""
    folder = folder.absolute()
    return str(folder.parent if folder.name == _info(folder).images else folder)


def folder_of_images(source: str) -> str:
    """The images of a MOTChallenge sequence are in a folder of it, or a video; anything else is its own source."""
    path = Path(source)
    if (path / SEQINFO).is_file():
        images = path / read_seqinfo(path / SEQINFO).images
        if images.is_dir():
            return str(images)
        if images.is_file():
            return os.path.normpath(images)
    return source


def _info_folder(images: Path) -> Path:
    """Where `seqinfo.ini` and `times.txt` of a folder of images lie."""
    return images.parent if (images.parent / SEQINFO).is_file() and not (images / SEQINFO).is_file() else images


def _info(images: Path) -> SeqInfo:
    path = _info_folder(images) / SEQINFO
    return read_seqinfo(path) if path.is_file() else SeqInfo()


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
    timeline: FrameTimeline


def open_sources(
    sources: Sequence[object], batch: int, *, every: int = 1, frame_rate: float | None = None, on_fault: OnFault
) -> OpenSources:
    """Videos, folders of images, MOTChallenge sequences, streams and cameras; several are read in turn."""
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise UserError(f"every is {shorten(every)}", fix="give a whole number from 1: 2 uses every second frame")
    if frame_rate is not None and not (isinstance(frame_rate, int | float) and 0 < frame_rate < math.inf):
        raise UserError(f"the frame rate is {shorten(frame_rate)}", fix="give frames per second above 0")
    if not sources:
        raise UserError("no source is given", fix="name a video, a folder of images, a stream or a camera")
    named = [folder_of_images(source_name(source)) for source in sources]
    if len(set(named)) < len(named):
        raise UserError("a source is given twice", fix="give each once")
    batches = batches_of_several(named, batch, every=every, on_fault=on_fault)
    return OpenSources(batches, FrameTimeline([name for one in named for name in images_of(one)], frame_rate, every))
