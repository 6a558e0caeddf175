"""A run small enough for tests: a network of a dozen layers on a few generated pictures."""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from tests.programs import Program
from yolofast.dataset.shapes.made_once import make_shapes

NETWORK = Path(__file__).with_name("small_run.yaml")


@functools.cache
def _drawn(images):
    folder = tempfile.TemporaryDirectory()  # it lives, here, as long as this process
    make_shapes(Path(folder.name) / "shapes", n=images)
    return folder


def shapes_in(folder, images):
    """As `make_shapes`, which draws for a third of a second: here only the first time, then they are copied."""
    if not folder.exists():
        shutil.copytree(Path(_drawn(images).name) / "shapes", folder)
    return make_shapes(folder, n=images)


def flags(folder, plots=False, images=24, **changes):
    """Of `yolofast train`, for the data set made in `folder`; pictures would take longer than training."""
    settings = {
        "data": shapes_in(folder / "shapes", images),
        "cfg": NETWORK,
        "img-size": 64,
        "batch-size": 8,
        "epochs": 3,
        "workers": 0,
        "device": "cpu",
        "project": folder / "runs",
        "cache": "off",
    } | {name.replace("_", "-"): value for name, value in changes.items()}
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    return words if plots else [*words, "--no-plots"]


def start(folder, *more, program=("yolofast",), **changes):
    """A process of its own, with one thread: sums are always added in the same order, and cores not fought over."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "YOLOFAST_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", *program, "train", *flags(folder, **changes), *more]
    return Program(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def killed_at(name, count):
    """A `program` that is killed where `Recorder.name` is called for the count-th time."""
    return "tests.train.killed_run", name, str(count)


def state_of(folder, name="exp"):
    return torch.load(folder / "runs" / name / "weights" / "last.pt", weights_only=True)
