"""`yolofast dataset`: `shapes` to train on, `shapes-video` to track, or `resize`, which makes images smaller."""

import argparse
import re
import shlex
from pathlib import Path

from yolofast.config.flags import from_args
from yolofast.config.tools import ResizeConfig, ShapesConfig, ShapesVideoConfig
from yolofast.dataset.data_argument import data_file
from yolofast.dataset.resize import Resizing
from yolofast.dataset.shapes.files import split_sizes
from yolofast.dataset.shapes.made_once import is_made, make_shapes
from yolofast.dataset.shapes.outline import NAMES
from yolofast.errors import UserError, shorten
from yolofast.terminal.console import decoding_progress
from yolofast.track.formats import shapes_video as moving
from yolofast.words import counted, own_command

_OF_A_VIDEO = ("sequences", "frames", "fps", "drop", "shake", "objects", "video")


def shapes(args: argparse.Namespace) -> None:
    config = from_args(ShapesConfig, args)
    n = config.n
    found = is_made(config.out, n, config.seed)
    data_yaml = make_shapes(config.out, n, config.seed)
    sizes = split_sizes(n)
    content = f"{sizes['train']:,} images to train on, {sizes['val']:,} to validate, {len(NAMES)} classes"
    _say(data_yaml, found, f"{content} ({', '.join(NAMES)})", f"check --data {shlex.quote(str(data_yaml))}")


def shapes_video(args: argparse.Namespace) -> None:
    config = from_args(ShapesVideoConfig, args)
    given = {name: getattr(config, name) for name in _OF_A_VIDEO}
    if config.size is not None:
        given |= zip(("width", "height"), _size(config.size), strict=True)
    request = moving.ShapesVideo(
        **{name: value for name, value in given.items() if value is not None}, seed=config.seed
    )
    found = moving.is_made(config.out, request)
    listed = moving.make_shapes_video(config.out, request)
    content = (
        f"{counted(request.sequences, 'sequence')} of {counted(request.frames, 'frame')}, "
        f"{request.width}×{request.height} at {request.fps:g} fps, {counted(request.objects, 'shape')} each"
    )
    folder = listed.parent
    source = folder / f"{request.names[0]}.mp4" if request.video else folder / request.names[0] / "img1"
    _say(listed, found, content, f"track --source {shlex.quote(str(source))}")


def resize(args: argparse.Namespace) -> None:
    config = from_args(ResizeConfig, args)
    with decoding_progress("resizing") as done:
        resizing = Resizing(data_file(config.data, print), config.img_size, config.skip_bad, config.quality, done)
        data_yaml = resizing.make(config.out)
    for remark in resizing.remarks:
        print(f"remark: {remark}")
    content = f"{counted(resizing.images, 'image')}, {resizing.shrunk:,} of them smaller than before"
    yaml = shlex.quote(str(data_yaml))
    print(f"{data_yaml}: {content}")
    print(f"next: {own_command()} train --data {yaml} --img {config.img_size}")


def _size(text: str) -> tuple[int, int]:
    sides = re.fullmatch(r"(\d{1,5})[x×X](\d{1,5})", text)
    if sides is None:
        raise UserError(f"--size is {shorten(text)}", fix="give width and height: --size 320x240")
    return int(sides[1]), int(sides[2])


def _say(path: Path, found: bool, content: str, following: str) -> None:
    print(f"{path}: {'already there, nothing to do: ' if found else 'made '}{content}")
    print(f"next: {own_command()} {following}")
