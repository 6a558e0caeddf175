"""The settings of the commands about sequences on disk: how good tracks are, and conversion between formats."""

from dataclasses import dataclass
from typing import Literal

from yolofast.config.settings import REQUIRED, Settings, setting


@dataclass(frozen=True, kw_only=True)
class TrackvalConfig(Settings):
    # fmt: off
    truth: str = setting(
        REQUIRED, "--truth", "--gt", metavar="DIR", help="MOTChallenge folders, a folder of SEQ.txt, or one file")
    results: str = setting(
        REQUIRED, "--results", metavar="DIR", help="results of a tracker: a folder of SEQ.txt, or one file")
    benchmark: Literal["none", "mot15", "mot17", "mot20"] = setting(
        "none", "--benchmark", help="which boxes count; mot17 and mot20: pedestrians, without distractors")
    classes: tuple[int | str, ...] | None = setting(
        None, "--classes", metavar="N", help="score these classes (column 8) one by one too, or all")
    sequences: tuple[str, ...] | None = setting(
        None, "--sequences", metavar="NAME", help="those to score, or a seqmap file; by default all of the truth")
    skip_bad: bool = setting(False, "--skip-bad", help="omit rows with faults, instead of stopping")
    json: str | None = setting(
        None, "--json", bare="-", metavar="FILE", help="all figures and events as JSON; without FILE printed")
    html: str | None = setting(
        None, "--html", bare="trackval.html", metavar="FILE", help="a page; without FILE trackval.html")
    images: str | None = setting(
        None, "--images", metavar="DIR", help="for pictures on the page: SEQ/img1/000001.jpg …")
    # fmt: on
