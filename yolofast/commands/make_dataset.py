"""`yolofast dataset`: a built-in data set, written to a folder: `shapes` to train on, `shapes-video` to track."""

import argparse
import re
import shlex
from pathlib import Path

from yolofast.config.flags import from_args
from yolofast.config.tools import DatasetConfig
from yolofast.dataset.shapes.files import split_sizes
from yolofast.dataset.shapes.made_once import is_made, make_shapes
from yolofast.dataset.shapes.outline import NAMES
from yolofast.errors import UserError, shorten
from yolofast.track.formats import shapes_video
from yolofast.words import counted, own_command

_PICTURES = 1000
_OF_A_VIDEO = ("sequences", "frames", "fps", "drop", "shake", "objects", "video")


def run(args: argparse.Namespace) -> None:
    config = from_args(DatasetConfig, args)
    (_shapes if config.name == "shapes" else _shapes_video)(config)


def _shapes(config: DatasetConfig) -> None:
    n = _PICTURES if config.n is None else config.n
    found = is_made(config.out, n, config.seed)
    data_yaml = make_shapes(config.out, n, config.seed)
    sizes = split_sizes(n)
    content = f"{sizes['train']:,} images to train on, {sizes['val']:,} to validate, {len(NAMES)} classes"
    _say(data_yaml, found, f"{content} ({', '.join(NAMES)})", f"check --data {shlex.quote(str(data_yaml))}")


def _shapes_video(config: DatasetConfig) -> None:
    given = {name: getattr(config, name) for name in _OF_A_VIDEO}
    if config.size is not None:
        given |= zip(("width", "height"), _size(config.size), strict=True)
    request = shapes_video.ShapesVideo(
        **{name: value for name, value in given.items() if value is not None}, seed=config.seed
    )
    found = shapes_video.is_made(config.out, request)
    listed = shapes_video.make_shapes_video(config.out, request)
    content = (
        f"{counted(request.sequences, 'sequence')} of {counted(request.frames, 'frame')}, "
        f"{request.width}×{request.height} at {request.fps:g} fps, {counted(request.objects, 'shape')} each"
    )
    folder = listed.parent
    source = folder / f"{request.names[0]}.mp4" if request.video else folder / request.names[0] / "img1"
    _say(listed, found, content, f"track --source {shlex.quote(str(source))} --weights best.pt")


def _size(text: str) -> tuple[int, int]:
    sides = re.fullmatch(r"(\d{1,5})[x×X](\d{1,5})", text)
    if sides is None:
        raise UserError(f"--size is {shorten(text)}", fix="give width and height: --size 320x240")
    return int(sides[1]), int(sides[2])


def _say(path: Path, found: bool, content: str, following: str) -> None:
    print(f"{path}: {'already there, nothing to do: ' if found else 'made '}{content}")
    print(f"next: {own_command()} {following}")
