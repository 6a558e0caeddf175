"""The settings of the commands about sequences on disk: how good tracks are, and conversion between formats."""

from dataclasses import dataclass
from typing import Literal

from yolofast.config.settings import REQUIRED, Settings, setting


@dataclass(frozen=True, kw_only=True)
class TrackvalConfig(Settings):
    # fmt: off
    truth: str = setting(
        REQUIRED, "--truth", "--gt", metavar="DIR",
        help="MOTChallenge folders, a folder of SEQ.txt, one file, or JSON with videos")
    results: str = setting(
        REQUIRED, "--results", metavar="DIR", help="results of a tracker: a folder of SEQ.txt, one file, or JSON")
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


@dataclass(frozen=True, kw_only=True)
class ConvertConfig(Settings):
    # fmt: off
    source: str = setting(
        REQUIRED, "source", metavar="SOURCE", help="MOTChallenge folder or file, COCO JSON with videos, or TAO JSON")
    source_format: Literal["auto", "mot", "coco-video", "tao"] = setting(
        "auto", "--from", help="format of the source; auto: by its content")
    to: Literal["mot", "coco-video", "tao"] = setting(REQUIRED, "--to", help="format to write")
    out: str = setting(REQUIRED, "--out", metavar="PLACE", help="folder for mot, else a file that ends in .json")
    kind: Literal["truth", "results", "detections"] = setting("truth", "--kind", help="what the source holds")
    names: tuple[str, ...] = setting(
        (), "--names", metavar="NAME", counts=(0, 10_000), help="of the classes, in the order of their numbers")
    skip_bad: bool = setting(False, "--skip-bad", help="omit rows with faults, instead of stopping")
    # fmt: on
