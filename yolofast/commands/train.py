"""`yolofast train`: a detector from its data, or with `--explain` what training it would do."""

import argparse
import os

import torch

from yolofast.config.flags import from_args, given_settings
from yolofast.config.train import TrainConfig, demonstration, is_demonstration
from yolofast.errors import UserError
from yolofast.exit_codes import EXIT_PAUSED
from yolofast.extensions import found
from yolofast.resources import short_names
from yolofast.train.display import Display
from yolofast.train.distributed.join import first_rank_speaks
from yolofast.train.finish import is_paused_for_time
from yolofast.train.session import train


def run(args: argparse.Namespace) -> int | None:
    """What only some trainings need is imported where they do: every start takes the time of what is imported above."""
    _take_explained_recipe(args)
    with first_rank_speaks():
        config, given = from_args(TrainConfig, args), given_settings(TrainConfig, args)
    if not config.faithful and is_demonstration(given):  # the drop-in script trains on COCO, as published
        config = demonstration(config)
        if "OMP_NUM_THREADS" not in os.environ:
            # Its steps are so short that threads wait for one another longer than they compute; beside other work, many
            # times as long. Measured: benchmarks/results/2026-11-18-demo-cpu.md.
            torch.set_num_threads(1)
        about = "no --data, --cfg or --weights: a demonstration on the built-in shapes, four minutes of a core's time"
        Display(config.epochs).say(about)
    if config.against is not None and not config.explain:
        raise UserError("--against compares what would run: it needs --explain", fix="add --explain")
    if config.against is not None:
        found("yolofast.commands.explain_against:explain_against")(config, given)
    elif config.explain:
        found("yolofast.commands.explain:explain_training")(config, given)
    elif config.evolve:
        found("yolofast.commands.sweep:evolve_training")(config, given, Display(config.epochs).say)
    elif is_paused_for_time(train(config, given)):
        return EXIT_PAUSED
    return None


def _take_explained_recipe(args: argparse.Namespace) -> None:
    """`--explain nuscenes-stable-v3 --against nuscenes-smooth-v2`: a recipe after `--explain` is the one explained."""
    named = getattr(args, "explain", None)
    if isinstance(named, str) and named in short_names("recipe") and not hasattr(args, "recipe"):
        args.explain, args.recipe = True, named
