"""The golden data set in nuScenes' tables, with images drawn for it, and what its boxes should be."""

import json

import cv2
import numpy as np

from tests.track.golden import GOLDEN
from yolofast.cli import main

FOLDER = GOLDEN / "nuscenes"
VERSION = "v1.0-syn"
SIZE = 1600, 900
"""Of the images, as the tables say; …"""
DRAWN = 400, 225
"""… drawn they are smaller, which takes less time."""


def table(name):
    return json.loads((FOLDER / VERSION / f"{name}.json").read_text())


def expected(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


def make_root(root, changes=(), *, drawn=False):
    """A root with the golden tables, those of `changes` in place of them (None: not there); images empty, or drawn."""
    changes = dict(changes)
    (root / VERSION).mkdir(parents=True)
    for path in (FOLDER / VERSION).iterdir():
        rows = changes.get(path.stem, path)
        if rows is path:
            (root / VERSION / path.name).symlink_to(path)
        elif rows is not None:
            (root / VERSION / path.name).write_text(rows if isinstance(rows, str) else json.dumps(rows))
    random = np.random.default_rng(0)
    for row in table("sample_data"):
        path = root / row["filename"]
        path.parent.mkdir(parents=True, exist_ok=True)
        if drawn and row["is_key_frame"]:
            tiles = random.integers(0, 255, (3, 4, 3), dtype=np.uint8)  # different in every image
            cv2.imwrite(str(path), cv2.resize(tiles, DRAWN, interpolation=cv2.INTER_NEAREST))
        else:
            path.touch()
    return root


def convert(root, out, *flags):
    """The exit code."""
    return main(["convert", "--from", "nuscenes", "--root", str(root), "--version", VERSION, "--out", str(out), *flags])
