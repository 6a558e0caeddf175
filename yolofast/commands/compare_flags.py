"""The flags of `yolofast compare`. Apart from the command, so that `--help` loads neither numpy nor torch."""

import argparse
import math


def add_compare(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run="yolofast.commands.compare:run")
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders of yolofast, YOLOv7, Ultralytics or YOLOX")
    parser.add_argument("--names", nargs="+", metavar="NAME", help="what to call them, default: their folders")
    parser.add_argument("--price", type=_positive, metavar="X", help="price of an hour, in any currency")
    parser.add_argument("--epochs", type=_epochs, metavar="N,N", help="epochs for the tables, from 1: 10,50,100")
    parser.add_argument("--last", type=_count, default=10, metavar="N", help="epochs of the end, default: %(default)s")
    parser.add_argument(
        "--group",
        nargs="+",
        metavar="[LABEL=]PATTERN",
        help="which runs are of one kind, by name; default: those that differ in the seed alone; none: no two",
    )
    parser.add_argument("--hours", type=_positive, nargs="+", metavar="H", help="of each run, if its files do not say")
    parser.add_argument("--pace", type=_positive, nargs="+", metavar="P", help="it/s of each run, if known")
    parser.add_argument("--images", type=_count, metavar="N", help="training images, if the run's files do not say")
    parser.add_argument("--output", default="compare.html", metavar="FILE", help="the page, default: %(default)s")
    parser.add_argument("--markdown", metavar="FILE", help="the same as Markdown")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="the same as JSON; without FILE printed")


_LEAST, _MOST = 1e-9, 1e9
"""Of hours, prices and paces: beyond, how often one goes into another would overflow."""


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not _LEAST <= value <= _MOST:
        raise argparse.ArgumentTypeError(f"{text} is not a number from {_LEAST:g} to {_MOST:g}")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 10 or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1")
    return int(text)


def _epochs(text: str) -> tuple[int, ...]:
    return tuple(sorted({_count(part.strip()) for part in text.split(",")}))
