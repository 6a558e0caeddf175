"""`yolofast dataset shapes`: the built-in data set, written where the user wants it."""

import argparse
import shlex

from yolofast.config.flags import from_args
from yolofast.config.tools import DatasetConfig
from yolofast.dataset.shapes.files import split_sizes
from yolofast.dataset.shapes.made_once import is_made, make_shapes
from yolofast.dataset.shapes.outline import NAMES
from yolofast.words import own_command


def shapes(args: argparse.Namespace) -> None:
    asked = from_args(DatasetConfig, args)
    found = is_made(asked.out, asked.n, asked.seed)
    data_yaml = make_shapes(asked.out, asked.n, asked.seed)
    sizes = split_sizes(asked.n)
    content = f"{sizes['train']:,} pictures to train on, {sizes['val']:,} to validate, {len(NAMES)} classes"
    print(f"{data_yaml}: {'already there, nothing to do: ' if found else 'made '}{content} ({', '.join(NAMES)})")
    print(f"next: {own_command()} check --data {shlex.quote(str(data_yaml))}")
