"""`yolofast motion train` and `motion val`: motion models that trackers use, learnt from tracks and judged."""

import argparse
import json
import math
from pathlib import Path

from yolofast.config.flags import from_args, given_settings
from yolofast.config.motion import MotionTrainConfig, MotionValConfig
from yolofast.errors import UserError
from yolofast.evaluate.drawing import blank, encoded
from yolofast.files.atomic_file import write_output
from yolofast.motion.training.horizons import SIMPLE, Answer, as_json, judged, learned, questions
from yolofast.motion.training.session import train_motion
from yolofast.motion.training.tracks import jittered, read_tracks
from yolofast.motion.weights import read_motion
from yolofast.pages.text import UNKNOWN
from yolofast.precision import device_of
from yolofast.terminal.console import console, table

_STANDARD_OUTPUT = "-"


def train(args: argparse.Namespace) -> None:
    train_motion(from_args(MotionTrainConfig, args), given_settings(MotionTrainConfig, args))


def val(args: argparse.Namespace) -> None:
    config = from_args(MotionValConfig, args)
    if config.plot is not None and Path(config.plot).suffix.lower() != ".png":
        raise UserError(f"--plot is {config.plot}", fix="name a file that ends in .png")
    methods = _methods(config)
    tracks = read_tracks(config.data, faithful=config.faithful)
    seen = jittered(tracks, config.jitter, config.seed) if config.jitter else None
    asked, horizons = questions(tracks, config.samples, seen), sorted(set(config.horizons))
    if not len(asked.last):
        raise UserError("no track is seen in seven frames in a row", where=config.data, fix="give longer tracks")
    found = judged(asked, methods, horizons[-1])
    figures = as_json(asked, found, horizons)
    written = []
    if config.plot is not None:
        written.append(write_output(config.plot, _picture({name: one.overlap for name, one in found.items()})))
    if config.json == _STANDARD_OUTPUT:
        print(json.dumps(figures, indent=1))
        return
    if config.json is not None:
        written.append(write_output(config.json, f"{json.dumps(figures, indent=1)}\n".encode()))
    out = console()
    shown = table("frames ahead", *(f">{title} {frames}" for title in ("IoU", "off by") for frames in horizons))
    for name, one in found.items():
        values = [values[frames - 1] for values in (one.overlap, one.offset) for frames in horizons]
        shown.add_row(name, *(UNKNOWN if math.isnan(value) else f"{value:.3f}" for value in values))
    shown.add_row("histories", *(f"{figures['histories'][frames - 1]:,}" for frames in horizons))
    out.print(shown)
    out.print("off by: distance of the centres, in sizes (√area) of the true box", soft_wrap=True)
    if written:
        out.print(f"written: {', '.join(map(str, written))}", soft_wrap=True)


def _methods(config: MotionValConfig) -> dict[str, Answer]:
    """Learned ones by the shortest ends of their paths that tell them apart."""
    device = device_of(config.device)
    paths = [Path(one) for one in config.weights]
    for parts in (1, 2, 3, 100):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            break
    else:
        raise UserError("--weights names a file twice", fix="name each once")
    models = [read_motion(path, config.sigmoid).to(device) for path in paths]
    return {**{name: learned(model) for name, model in zip(names, models, strict=True)}, **SIMPLE}


def _picture(overlaps: dict[str, list[float]]) -> bytes:
    figure, canvas, plot = blank((8, 5))
    for name, values in overlaps.items():
        plot.plot(range(1, len(values) + 1), values, marker=".", label=name)
    plot.set_xlabel("frames ahead")
    plot.set_ylabel("IoU with the true box")
    plot.set_ylim(0, 1)
    plot.grid(alpha=0.3)
    plot.legend()
    del figure
    return encoded(canvas)
