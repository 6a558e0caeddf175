"""The flags of `yolofast profile`: those of training, and how to measure. Nothing heavy is imported for them."""

import argparse

from yolofast.config.flags import add_flags
from yolofast.config.train import TrainConfig


def add_profile(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run="yolofast.commands.profile:run")
    own = parser.add_argument_group("profile")
    own.add_argument(
        "--steps", type=_steps, default=50, metavar="N", dest="profile_steps", help="steps to measure (default: 50)"
    )
    own.add_argument(
        "--warm-up", type=_steps, default=10, metavar="N", dest="profile_warm_up", help="steps before (default: 10)"
    )
    own.add_argument(
        "--at-epoch", type=_epoch, metavar="N", help="the epoch whose steps are made, from 1 (default: the middle one)"
    )
    own.add_argument(
        "--against", metavar="FLAGS",
        help='measure a second configuration in turn with the first: what differs, as "--loader cpu --workers 8"',
    )  # fmt: skip
    own.add_argument("--trace", metavar="FILE", help="write a trace of some steps for ui.perfetto.dev: trace.json")
    own.add_argument("--json", nargs="?", const="-", metavar="FILE", help="print JSON, or write it to a file")
    own.add_argument("--output", metavar="FOLDER", help="write profile.json there; by default nothing is written")
    own.add_argument("--compile-report", action="store_true", help="say what torch.compile makes of the step")
    add_flags(parser, TrainConfig, TrainConfig())


def _steps(text: str) -> int:
    return _count(text, "a number of steps")


def _epoch(text: str) -> int:
    return _count(text, "an epoch")


def _count(text: str, what: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not {what}: give 1 or more")
    return int(text)
