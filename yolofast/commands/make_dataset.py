"""`yolofast dataset shapes`: the built-in data set, written to a folder."""

import argparse
import shlex

from yolofast.config.flags import from_args
from yolofast.config.tools import DatasetConfig
from yolofast.dataset.shapes.files import split_sizes
from yolofast.dataset.shapes.made_once import is_made, make_shapes
from yolofast.dataset.shapes.outline import NAMES
from yolofast.words import own_command


def shapes(args: argparse.Namespace) -> None:
    config = from_args(DatasetConfig, args)
    found = is_made(config.out, config.n, config.seed)
    data_yaml = make_shapes(config.out, config.n, config.seed)
    sizes = split_sizes(config.n)
    content = f"{sizes['train']:,} images to train on, {sizes['val']:,} to validate, {len(NAMES)} classes"
    print(f"{data_yaml}: {'already there, nothing to do: ' if found else 'made '}{content} ({', '.join(NAMES)})")
    print(f"next: {own_command()} check --data {shlex.quote(str(data_yaml))}")
