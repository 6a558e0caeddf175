"""The command line: flags in, one function called, one message and exit code 2 for anything the user can mend."""

import argparse
import importlib
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from yolofast._version import __version__
from yolofast.commands.compare_flags import add_compare
from yolofast.commands.profile_flags import add_profile
from yolofast.config.flag_parser import FlagParser
from yolofast.config.flags import add_flags
from yolofast.config.predict import PredictConfig
from yolofast.config.train import TrainConfig
from yolofast.config.val import ValConfig
from yolofast.config.values import number_or_name
from yolofast.early_interrupts import interrupts_raise
from yolofast.errors import nearest
from yolofast.exit_codes import EXIT_BAD_INPUT, EXIT_OK, call

_MAX_PIXELS = 32_768


class _Parser(FlagParser):
    """Messages begin with the name of the program rather than of the command."""

    def error(self, message: str) -> NoReturn:
        if wrong := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            message += nearest(wrong[1], re.findall(r"[\w-]+", wrong[2]))
        self.exit(EXIT_BAD_INPUT, f"yolofast: error: {message}\n  fix: see {self.prog} --help\n")

    def refuse_unknown(self, unknown: Sequence[str]) -> NoReturn:
        flag = unknown[0].split("=")[0]
        known = [option for action in self._actions for option in action.option_strings]
        self.error(f"unknown argument {flag}{nearest(flag, known)}")


def build_parser() -> tuple[_Parser, dict[str, _Parser]]:
    """The parser, and those of its commands by name."""
    parser = _Parser(
        prog="yolofast", description="Train, fine-tune, evaluate and explain YOLOv7 and YOLOX at the speed of the GPU."
    )
    parser.add_argument("--version", action="version", version=f"yolofast {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    info = commands.add_parser("info", help="what a network is made of and what it costs")
    info.set_defaults(run="yolofast.commands.info:run")
    _add_model_flags(info)
    info.add_argument(
        "--transfer-weights", action="store_true", help="load what matches by name and shape, list the rest"
    )
    _add_image_size(info, "; by default what the weights were trained for, or such networks are meant for")
    info.set_defaults(img_size=None)
    info.add_argument(
        "--freeze",
        type=number_or_name,
        nargs="+",
        default=[0],
        metavar="N",
        help="freeze layers 0 to N-1, or exactly the given ones; or parts by name: backbone neck, backbone.dark*",
    )
    info.add_argument("--fuse", action="store_true", help="after folding BatchNorm, RepConv and implicit layers")
    info.add_argument("--layers", action="store_true", help="a row per layer instead of per section")
    info.add_argument("--json", action="store_true", help="print JSON")

    strip = commands.add_parser("strip", help="reduce a checkpoint to half-precision weights")
    strip.set_defaults(run="yolofast.commands.convert:strip")
    strip.add_argument("--weights", required=True, help="checkpoint to strip")
    strip.add_argument("--out", help="where to write it; by default in place")

    reparam = commands.add_parser("reparam", help="turn trained weights into their deploy form")
    reparam.set_defaults(run="yolofast.commands.convert:reparam")
    reparam.add_argument("--weights", required=True, help="trained weights")
    reparam.add_argument("--cfg", help="training graph, for weight files that do not hold it")
    reparam.add_argument("--nc", type=int, help="number of classes, if not that of the file")
    reparam.add_argument("--out", required=True, help="where to write the deploy weights")

    heads = commands.add_parser("heads", help="group the classes of a data set into heads (1B4H)")
    heads.set_defaults(run="yolofast.commands.fit_to_data:heads")
    heads.add_argument("--data", required=True, help="data set yaml, or shapes")
    heads.add_argument("--grouping", choices=("geometry", "hybrid"), default="geometry", help="default: %(default)s")
    heads.add_argument("--heads", type=int, default=4, help="number of heads, default: %(default)s")
    heads.add_argument("--no-balance", action="store_true", help="hybrid: leave clusters as large as they come")
    heads.add_argument("--full-head", action="store_true", help="every head predicts every class")
    heads.add_argument("--out", required=True, help="where to write the head config")

    anchors = commands.add_parser("anchors", help="check a model's anchors against a data set, and fit better ones")
    anchors.set_defaults(run="yolofast.commands.fit_to_data:anchors")
    anchors.add_argument("--data", required=True, help="data set yaml, or shapes")
    _add_model_flags(anchors)
    _add_image_size(anchors)
    anchors.add_argument("--anchor-t", type=float, default=4.0, help="largest ratio of sizes that matches: %(default)s")
    anchors.add_argument("--seed", type=int, default=0, help="default: %(default)s")

    dataset = commands.add_parser("dataset", help="write a built-in data set to learn and try things with")
    dataset.set_defaults(run="yolofast.commands.make_dataset:shapes")
    dataset.add_argument("name", choices=("shapes",), help="shapes: circles, stars, arrows … generated, with labels")
    dataset.add_argument("--out", required=True, metavar="DIR", help="folder to make")
    dataset.add_argument("--n", type=int, default=1000, help="pictures to train on, default: %(default)s")
    dataset.add_argument("--seed", type=int, default=0, help="default: %(default)s")

    pack = commands.add_parser("pack", help="decode and resize the images of a data set once, before training")
    pack.set_defaults(run="yolofast.commands.pack:run")
    pack.add_argument("--data", required=True, help="data set yaml, or shapes")
    _add_image_size(pack)
    pack.add_argument("--cache", choices=("disk", "jpeg"), default="disk", help="plain pixels, or JPEG (a seventh)")
    pack.add_argument("--splits", nargs="+", default=["train", "val"], metavar="SPLIT", help="default: train val")
    pack.add_argument("--out", metavar="FOLDER", help="where to put the store; by default .yolofast beside the data")
    pack.add_argument("--verify", action="store_true", help="read everything back and compare the checksums")
    pack.add_argument("--skip-bad", action="store_true", help="leave out images that `check` finds fault with")
    pack.add_argument("--workers", type=_threads, metavar="N", help="threads, by default one per core")

    check = commands.add_parser("check", help="what is in a data set, and everything that is wrong with it")
    check.set_defaults(run="yolofast.commands.check:run")
    check.add_argument("--data", required=True, help="data set yaml, or shapes")
    check.add_argument("--splits", nargs="+", metavar="SPLIT", help="default: all that the yaml names")
    check.add_argument("--single-cls", action="store_true", help="read all labels as one class")
    check.add_argument("--plot", "--out", metavar="FILE", help="draw an overview of the labels: labels.jpg")
    check.add_argument("--json", action="store_true", help="print JSON, with every fault")

    preview = commands.add_parser("preview", help="draw augmented images with their boxes, to look at")
    preview.set_defaults(run="yolofast.commands.preview:run")
    preview.add_argument("--data", required=True, help="data set yaml, or shapes")
    preview.add_argument("--out", required=True, metavar="FILE", help="the picture to write: preview.jpg")
    _add_image_size(preview)
    preview.add_argument("--hyp", metavar="FILE", help="YOLOv7's hyper-parameters, by default those of yolov7-tiny")
    preview.add_argument("--style", choices=("yolov7", "yolox"), default="yolov7", help="default: %(default)s")
    preview.add_argument("--split", default="train", help="default: %(default)s")
    preview.add_argument("--n", type=int, default=16, metavar="N", help="images to draw, default: %(default)s")
    preview.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    preview.add_argument("--epoch", type=int, default=0, help="default: %(default)s")
    preview.add_argument("--skip-bad", action="store_true", help="leave out images that `check` finds fault with")
    train = commands.add_parser("train", help="train a detector; without flags on the built-in data set")
    train.set_defaults(run="yolofast.commands.train:run")
    add_flags(train, TrainConfig, TrainConfig())

    val = commands.add_parser("val", help="how good a trained detector is")
    val.set_defaults(run="yolofast.commands.val:run")
    add_flags(val, ValConfig, ValConfig())

    predict = commands.add_parser("predict", help="find objects in pictures")
    predict.set_defaults(run="yolofast.commands.predict:run")
    add_flags(predict, PredictConfig, PredictConfig())

    diagnose = commands.add_parser("diagnose", help="why a loss oscillates, what to change, which epoch to ship")
    diagnose.set_defaults(run="yolofast.commands.diagnose:run")
    diagnose.add_argument("run_or_log", help="a run's folder, results.csv, YOLOv7's results.txt, YOLOX's train_log.txt")
    diagnose.add_argument("--json", action="store_true", help="print JSON")
    diagnose.add_argument("--plot", metavar="FILE", help="draw it: diagnosis.png")

    add_profile(commands.add_parser("profile", help="where the time of a step goes, and what to change"))

    add_compare(commands.add_parser("compare", help="runs beside one another: accuracy, time, money, what differs"))

    report = commands.add_parser("report", help="make the report.html of a run again")
    report.set_defaults(run="yolofast.commands.report:run")
    report.add_argument("run_folder", metavar="RUN", help="a run's folder: runs/train/exp")
    report.add_argument("--output", metavar="FILE", help="where to write it, by default report.html of the folder")
    report.add_argument("--markdown", metavar="FILE", help="the same as Markdown")

    watch = commands.add_parser("watch", help="all runs in a browser, live while they train")
    watch.set_defaults(run="yolofast.commands.watch:run")
    watch.add_argument("runs", nargs="?", default="runs", help="folder to look for runs in, default: %(default)s")
    watch.add_argument("--port", type=_port, default=8420, help="default: %(default)s; 0 takes a free one")
    watch.add_argument("--host", default="127.0.0.1", help="default: %(default)s; any other needs a token")
    watch.add_argument("--token", help="what the address has to know; made up where it is needed and not given")
    watch.add_argument("--open", action="store_true", help="open the browser")
    return parser, dict(commands.choices)


def _add_model_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cfg", "--model", help="model file, packaged path or short name such as yolov7-tiny")
    parser.add_argument("--weights", help="weight file")
    parser.add_argument("--nc", type=int, help="number of classes, if not that of the file")
    parser.add_argument("--head-config", help="which head owns which classes (1B4H): a file, standard, geometry, …")


def _add_image_size(parser: argparse.ArgumentParser, note: str = "") -> None:
    parser.add_argument(
        "--img-size",
        "--img",
        "--imgsz",
        type=_pixels,
        nargs="+",
        default=[640],
        metavar="N",
        help="pixels, or height and width" + note,
    )


def _pixels(text: str) -> int:
    size = int(text) if text.isdecimal() else 0
    if not 1 <= size <= _MAX_PIXELS:
        raise argparse.ArgumentTypeError(f"{text} is not a size from 1 to {_MAX_PIXELS} pixels")
    return size


def _threads(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of threads: give 1 or more")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text} is not a port from 0 to 65535")
    return int(text)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser, commands = build_parser()
    args: argparse.Namespace
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        commands.get(args.command, parser).refuse_unknown(unknown)
    if args.command is None:
        parser.print_help()
        parser.exit(EXIT_OK)
    if isinstance(sizes := getattr(args, "img_size", None), list) and len(sizes) > 2:
        commands[args.command].error("--img-size takes one or two numbers")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    if sys.stdout is None:  # closed by the shell: nobody wants to read
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it lives as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show × shows ? instead of failing
    args = parse(sys.argv[1:] if argv is None else argv)
    return call(lambda: _run(args))


def _run(args: argparse.Namespace) -> int | None:
    module, function = args.run.split(":")
    command: Callable[[argparse.Namespace], int | None] = getattr(importlib.import_module(module), function)
    interrupts_raise()
    return command(args)


if __name__ == "__main__":
    sys.exit(main())
