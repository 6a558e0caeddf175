"""`yolofast train`: a detector from its data, or with `--explain` what training it would do."""

import argparse

from yolofast.commands.explain import explain_training
from yolofast.config.flags import from_args, given_settings
from yolofast.config.train import TrainConfig, demonstration, is_demonstration
from yolofast.train.display import Display
from yolofast.train.distributed.join import first_rank_speaks
from yolofast.train.session import train


def run(args: argparse.Namespace) -> None:
    with first_rank_speaks():
        config, given = from_args(TrainConfig, args), given_settings(TrainConfig, args)
    if not config.faithful and is_demonstration(given):  # the drop-in script trains on COCO, as published
        config = demonstration(config)
        about = "no --data, --cfg or --weights: a demonstration on the built-in shapes, about two minutes on a CPU"
        Display(config.epochs).say(about)
    if config.explain:
        explain_training(config, given)
    else:
        train(config, given)
