"""The settings of the commands that explain runs, and of `profile`, which has those of training besides."""

import argparse
import math
from dataclasses import dataclass
from functools import partial

from yolofast.config.common import PROFILE
from yolofast.config.settings import REQUIRED, Settings, setting


def _steps(text: str) -> int:
    return _up_to_a_million(text, "a number of steps")


def _epoch(text: str) -> int:
    return _up_to_a_million(text, "an epoch")


def _up_to_a_million(text: str, what: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not {what}: give 1 or more")
    return int(text)


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


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text} is not a port from 0 to 65535")
    return int(text)


_profile = partial(setting, section=PROFILE)


@dataclass(frozen=True, kw_only=True)
class DiagnoseConfig(Settings):
    # fmt: off
    run_or_log: str = setting(
        REQUIRED, "run_or_log", help="a run's folder, results.csv, YOLOv7's results.txt, YOLOX's train_log.txt")
    json: bool = setting(False, "--json", help="print JSON")
    plot: str | None = setting(None, "--plot", metavar="FILE", help="draw it: diagnosis.png")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class ProfileConfig(Settings):
    # fmt: off
    steps: int = _profile(50, "--steps", read=_steps, metavar="N", help="steps to measure")
    warm_up: int = _profile(10, "--warm-up", read=_steps, metavar="N", help="steps before")
    at_epoch: int | None = _profile(
        None, "--at-epoch", read=_epoch, metavar="N",
        help="the epoch whose steps are made, from 1 (default: the middle one)")
    against: str | None = _profile(
        None, "--against", metavar="FLAGS",
        help='measure a second configuration in turn with the first: what differs, as "--loader cpu --workers 8"')
    trace: str | None = _profile(
        None, "--trace", metavar="FILE", help="write a trace of some steps for ui.perfetto.dev: trace.json")
    json: str | None = _profile(None, "--json", bare="-", metavar="FILE", help="print JSON, or write it to a file")
    output: str | None = _profile(
        None, "--output", metavar="FOLDER", help="write profile.json there; by default nothing is written")
    compile_report: bool = _profile(False, "--compile-report", help="say what torch.compile makes of the step")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class CompareConfig(Settings):
    # fmt: off
    runs: tuple[str, ...] = setting(
        REQUIRED, "runs", metavar="RUN", help="run folders of yolofast, YOLOv7, Ultralytics or YOLOX")
    names: tuple[str, ...] = setting(
        (), "--names", metavar="NAME", counts=(0, 10_000), help="what to call them, default: their folders")
    price: float | None = setting(
        None, "--price", read=_positive, metavar="X", help="price of an hour, in any currency")
    epochs: tuple[int, ...] = setting(
        (), "--epochs", read=_count, commas=True, metavar="N,N", counts=(0, 10_000),
        help="epochs for the tables, from 1: 10,50,100")
    last: int = setting(10, "--last", read=_count, metavar="N", help="epochs of the end, default: {default}")
    group: tuple[str, ...] = setting(
        (), "--group", metavar="[LABEL=]PATTERN", counts=(0, 10_000),
        help="which runs are of one kind, by name; default: those that differ in the seed alone; none: no two")
    hours: tuple[float, ...] = setting(
        (), "--hours", read=_positive, metavar="H", counts=(0, 10_000), help="of each run, if its files do not say")
    pace: tuple[float, ...] = setting(
        (), "--pace", read=_positive, metavar="P", counts=(0, 10_000), help="it/s of each run, if known")
    images: int | None = setting(
        None, "--images", read=_count, metavar="N", help="training images, if the run's files do not say")
    output: str = setting("compare.html", "--output", metavar="FILE", help="the page, default: {default}")
    markdown: str | None = setting(None, "--markdown", metavar="FILE", help="the same as Markdown")
    json: str | None = setting(
        None, "--json", bare="-", metavar="FILE", help="the same as JSON; without FILE printed")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class ReportConfig(Settings):
    # fmt: off
    run_folder: str = setting(REQUIRED, "run_folder", metavar="RUN", help="a run's folder: runs/train/exp")
    output: str | None = setting(
        None, "--output", metavar="FILE", help="where to write it, by default report.html of the folder")
    markdown: str | None = setting(None, "--markdown", metavar="FILE", help="the same as Markdown")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class WatchConfig(Settings):
    # fmt: off
    runs: str = setting("runs", "runs", help="folder to look for runs in, default: {default}")
    port: int = setting(8420, "--port", read=_port, help="default: {default}; 0 takes a free one")
    host: str = setting("127.0.0.1", "--host", help="default: {default}; any other needs a token")
    token: str | None = setting(
        None, "--token", help="what the address has to know; made up where it is needed and not given")
    open: bool = setting(False, "--open", help="open the browser")
    # fmt: on
