"""The drop-in scripts at the root of the repository: published flags, defaults and behaviour."""

import sys

from yolofast.config.commands import COMMANDS
from yolofast.config.common import RunConfig
from yolofast.config.flags import parse_flags
from yolofast.config.predict import PredictConfig
from yolofast.config.train import TrainConfig
from yolofast.config.val import ValConfig
from yolofast.exit_codes import run_command


def train() -> int:
    return _call("train", TrainConfig.published(), "train.py")


def detect() -> int:
    return _call("predict", PredictConfig.published(), "detect.py")


def test() -> int:
    return _call("val", ValConfig.published(), "test.py")


def _call(command: str, defaults: RunConfig, prog: str) -> int:
    args = parse_flags(type(defaults), defaults, sys.argv[1:], prog)
    return run_command(next(one.run for one in COMMANDS if one.name == command), args)
