"""The drop-in scripts at the root of the repository: published flags, defaults and behaviour."""

import argparse
import sys
from collections.abc import Callable

from yolofast.config.flags import parse_flags
from yolofast.config.predict import PredictConfig
from yolofast.config.train import TrainConfig
from yolofast.config.val import ValConfig
from yolofast.exit_codes import call
from yolofast.interrupts import interrupts_raise


def train() -> int:
    from yolofast.commands.train import run

    args = parse_flags(TrainConfig, TrainConfig.published(), sys.argv[1:], "train.py")
    return call(lambda: _begin(run, args))


def detect() -> int:
    from yolofast.commands.predict import run

    args = parse_flags(PredictConfig, PredictConfig.published(), sys.argv[1:], "detect.py")
    return call(lambda: _begin(run, args))


def test() -> int:
    from yolofast.commands.val import run

    args = parse_flags(ValConfig, ValConfig.published(), sys.argv[1:], "test.py")
    return call(lambda: _begin(run, args))


def _begin(run: Callable[[argparse.Namespace], int | None], args: argparse.Namespace) -> int | None:
    interrupts_raise()  # not before: here they are caught
    return run(args)
