"""What `--source` means: a file, a folder, a glob, a video, a list of streams, an address, a camera, standard input."""

import glob
import os
import re
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from yolofast.dataset.data_yaml import IMAGE_SUFFIXES
from yolofast.errors import UserError, nearest_file, shorten
from yolofast.files.budget import MAX_PIXELS
from yolofast.files.threads import read_ahead
from yolofast.media.addresses import fetch, is_web_address, without_password
from yolofast.media.frames import (
    Frame,
    FrameSource,
    SingleImage,
    VideoFile,
    lines_of,
    standard_input,
)
from yolofast.media.pictures import decode_picture, read_picture
from yolofast.media.streams import LiveStreams, OnFault

VIDEO_SUFFIXES = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm", ".wmv"})

_ADDRESS = re.compile(r"(rtsps?|rtmps?|https?|udp|tcp|rtp)://.+", re.IGNORECASE)
_DIGITS = re.compile(r"(\d+)")
_MOST_NAMED = 3
_FRAMES_AHEAD = 2
"""Of each of several sources."""


def frame_batches(source: str, batch: int, *, every: int = 1, on_fault: OnFault) -> Generator[list[Frame]]:
    """The frames of a source, up to `batch` at a time; of streams, what is new.

    A source that does not exist raises `UserError` at once. What is wrong with one file or stream of several goes to
    `on_fault`, and the others continue.
    """
    _check_count("batch", batch, "how many frames at once")
    _check_count("every", every, "1 uses all frames")
    if streams := _streams_of(source):
        return LiveStreams(streams, on_fault, every).batches()
    frames = _all_frames(_thinned(_files_of(source, every), every), on_fault)
    return _batches(frames, batch)


def _batches(frames: Iterable[Frame], most: int) -> Generator[list[Frame]]:
    """A batch of huge images is smaller: all of it is in memory."""
    some: list[Frame] = []
    pixels = 0
    for frame in frames:
        some.append(frame)
        pixels += frame.image.shape[0] * frame.image.shape[1]
        if len(some) >= most or pixels >= MAX_PIXELS // 4:
            yield some
            some, pixels = [], 0
    if some:
        yield some


def batches_of_several(
    sources: Sequence[str], batch: int, *, every: int = 1, on_fault: OnFault
) -> Generator[list[Frame]]:
    """As `frame_batches`, of several sources at once: a batch has frames of all that have not ended, in turn."""
    _check_count("batch", batch, "how many frames at once")
    _check_count("every", every, "1 uses all frames")
    if len(sources) == 1:
        return frame_batches(sources[0], batch, every=every, on_fault=on_fault)
    streams = [_streams_of(source) for source in sources]
    if all(streams):
        return LiveStreams([name for names in streams for name in names], on_fault, every).batches()
    if any(streams):
        what = "live streams and files are read at different speeds"
        raise UserError(what, fix="give either only streams and cameras, or only files")
    return _in_turn([frame_batches(source, 1, every=every, on_fault=on_fault) for source in sources], batch)


def _check_count(name: str, value: object, meaning: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"{name} is {shorten(value)}", fix=f"give a whole number from 1: {meaning}")


def _in_turn(sources: Sequence[Generator[list[Frame]]], batch: int) -> Generator[list[Frame]]:
    """A thread reads each source ahead."""
    open_ = [read_ahead(source, _FRAMES_AHEAD) for source in sources]
    frames: list[Frame] = []
    try:
        while open_:
            for source in list(open_):
                some = next(source, None)
                if some is None:
                    open_.remove(source)
                frames += some or []
                if len(frames) >= batch or (not open_ and frames):
                    yield frames
                    frames = []
        if frames:
            yield frames
    finally:
        for source in open_:
            source.close()


def is_live(name: str) -> bool:
    """A camera, or an address other than that of a video or image."""
    is_file = _suffix(name) in VIDEO_SUFFIXES or _is_image_address(name)
    return name.isdecimal() or (_ADDRESS.fullmatch(name) is not None and not is_file)


def _is_image_address(name: str) -> bool:
    return is_web_address(name) and _suffix(name) in IMAGE_SUFFIXES


def _suffix(name: str) -> str:
    return Path(name.split("?")[0]).suffix.lower()


def _streams_of(source: str) -> list[str]:
    """The streams that `source` names; none if it is something else."""
    if source.lower().endswith(".txt") and Path(source).is_file():
        entries = _entries(Path(source))
        return entries if entries and all(map(is_live, entries)) else []
    return [source] if is_live(source) and not Path(source).exists() else []


def _entries(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        what = f"is not a list of streams or files: {error}"
        raise UserError(what, where=path, fix="give a text file, one per line") from None
    return [line for line in lines if line and not line.startswith("#")]


def _files_of(source: str, every: int) -> Iterator[FrameSource]:
    """Sources to be read one after the other."""
    if not source:
        raise UserError("--source is empty", fix="name an image, a folder or a glob")
    if source == "-":
        return _piped(sys.stdin.buffer, every)
    return iter([_one(name, every) for name in _names_of(source)])


def images_of(source: str) -> list[str]:
    """The names of the images that a source of files holds, in the order of reading; none for streams and pipes."""
    if source == "-" or _streams_of(source):
        return []
    return [name for name in _names_of(source) if isinstance(_one(name, 1), SingleImage)]


def natural_order(name: str) -> tuple[list[tuple[int, int | str]], str]:
    """`image_9` before `image_10`."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in _DIGITS.split(name) if part], name


def _names_of(source: str) -> list[str]:
    path = Path(source)
    if path.is_dir():
        known = IMAGE_SUFFIXES | VIDEO_SUFFIXES
        files = (str(file) for file in path.iterdir() if file.suffix.lower() in known and file.is_file())
        found = sorted(files, key=natural_order)
    elif source.lower().endswith(".txt") and path.is_file():
        found = _entries(path)
    elif path.exists() or _ADDRESS.fullmatch(source):
        found = [source]
    elif glob.has_magic(source):
        found = sorted((name for name in glob.glob(source, recursive=True) if Path(name).is_file()), key=natural_order)
    else:
        what = f"cannot be read: there is no such file{nearest_file(source)}"
        raise UserError(what, where=source, fix="check the name given as source")
    if not found and (below := _images_below(path)):
        folders = ", ".join(dict.fromkeys(str(one.parent.relative_to(path)) for one in below))
        what = f"{shorten(source)} holds no image itself, but its folders do: {folders}"
        raise UserError(what, fix=f"name one of them, or all below: '{path / '**' / f'*{below[0].suffix}'}'")
    if not found:
        what = f"{shorten(source)} holds no image"
        raise UserError(what, fix="name an image, a video, a folder, a glob, an address or the number of a camera")
    return found


def _images_below(path: Path) -> list[Path]:
    """One of each of the first few folders that hold some."""
    known = IMAGE_SUFFIXES | VIDEO_SUFFIXES
    firsts = ((folder, next((one for one in files if _suffix(one) in known), "")) for folder, _, files in os.walk(path))
    return [Path(folder, file) for folder, file in islice((pair for pair in firsts if pair[1]), _MOST_NAMED)]


def _one(name: str, every: int) -> FrameSource:
    if _is_image_address(name):
        shown = without_password(name)
        return SingleImage(shown, lambda: decode_picture(fetch(name), shown))
    if _ADDRESS.fullmatch(name) or _suffix(name) in VIDEO_SUFFIXES:
        return VideoFile(name, every)
    path = Path(name)
    return SingleImage(str(path), lambda: read_picture(path))


def _piped(stream: BinaryIO, every: int) -> Iterator[FrameSource]:
    first, is_text = standard_input(stream)
    if not first:
        raise UserError("standard input is empty", fix="pipe names of images into it, or an image")
    if not is_text:
        content = first + stream.read()
        return iter([SingleImage("stdin", lambda: decode_picture(content, "standard input"))])
    return (_one(line, every) for line in lines_of(first, stream) if line)


def _thinned(sources: Iterable[FrameSource], every: int) -> Iterator[FrameSource]:
    """Every N-th image of each folder, numbered as they lie there; videos thin themselves."""
    counts: Counter[Path] = Counter()
    for source in sources:
        if isinstance(source, SingleImage):
            folder = Path(source.name).parent
            number = counts[folder]
            counts[folder] += 1
            if number % every:
                continue
            source = replace(source, number=number)
        yield source


def source_name(given: object) -> str:
    """What a caller from Python gives as a source, as text; anything but a name is refused."""
    if isinstance(given, bool) or not isinstance(given, str | Path | int):
        fix = "name a video, a folder of images, a stream or a camera; images as arrays go to predict"
        raise UserError(f"a source is {type(given).__name__}: {shorten(given)}", fix=fix)
    try:
        Path(str(given)).exists()
    except (OSError, ValueError) as error:  # no file can have this name, or nobody may look at it
        what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UserError(what, where=shorten(given), fix="check the name given as source") from None
    return str(given)


def _all_frames(sources: Iterable[FrameSource], on_fault: OnFault) -> Generator[Frame]:
    for source in sources:
        try:
            yield from source.frames()
        except UserError as fault:
            on_fault(fault)
