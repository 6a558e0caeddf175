"""`yolofast trackval`: how well results follow the truth, as tables, as JSON, and as a page."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from yolofast.config.flags import from_args
from yolofast.config.sequences import TrackvalConfig
from yolofast.errors import UserError
from yolofast.files.atomic_file import write_output
from yolofast.files.own_file import mark, refuse_foreign
from yolofast.pages.html import render_page
from yolofast.report.tracks.switches import Switch
from yolofast.report.tracks.tracks_page import (
    AVERAGES,
    COLUMNS,
    COUNTED,
    TITLES,
    causes_of,
    class_title,
    explained,
    page_of,
)
from yolofast.terminal.console import console, table
from yolofast.track.formats.mot import read_seqmap
from yolofast.track.score.combine import Scores
from yolofast.track.score.scores import TrackScores, score_tracks
from yolofast.words import counted

_MADE_BY = "yolofast trackval"
_STANDARD_OUTPUT = "-"
_ENDINGS = {"json": (".json",), "html": (".html", ".htm")}
_LISTED = 10


def run(args: argparse.Namespace) -> None:
    config = from_args(TrackvalConfig, args)
    targets = _targets(config)
    scores = score_tracks(
        config.truth,
        config.results,
        benchmark=config.benchmark,
        classes="all" if config.classes == ("all",) else config.classes,
        class_names=config.names or None,
        names=_names(config.sequences),
        skip_bad=config.skip_bad,
    )
    switches = explained(scores)
    if config.html is not None:
        title = f"Tracks of {Path(config.results).name}"
        page = page_of(scores, title, switches, None if config.images is None else Path(config.images))
        write_output(config.html, (render_page(page) + mark(_MADE_BY)).encode("utf-8", errors="replace"))
    if config.json is not None:
        text = json.dumps(as_json(config, scores, switches), indent=1)
        if config.json == _STANDARD_OUTPUT:
            print(text)
            return
        write_output(config.json, f"{text}\n".encode())
    out = console()
    print_scores(out, scores)
    _print_switches(out, switches)
    for remark in scores.remarks:
        out.print(f"remark: {remark}", soft_wrap=True)
    if targets:
        out.print(f"written: {', '.join(map(str, targets))}", soft_wrap=True)


def _targets(config: TrackvalConfig) -> list[Path]:
    """Files to write, refused before anything is computed."""
    found = []
    for name in ("json", "html"):
        given = getattr(config, name)
        if given in (None, _STANDARD_OUTPUT):
            continue
        path = Path(given)
        if path.suffix.lower() not in _ENDINGS[name]:
            raise UserError(f"--{name} is {path}", fix=f"name a file that ends in {_ENDINGS[name][0]}")
        refuse_foreign(path, _MADE_BY)
        found.append(path)
    if config.images is not None and config.html is None:
        raise UserError("--images is for the page", fix="add --html")
    if config.images is not None and not Path(config.images).is_dir():
        raise UserError("--images: no such folder", where=config.images, fix="name the folder of SEQ/img1")
    return found


def _names(given: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if given is not None and len(given) == 1 and Path(given[0]).is_file():
        return read_seqmap(given[0])
    return given


def print_scores(out: Console, scores: TrackScores) -> None:
    listing = _listing("sequence")
    for name, one in scores.sequences.items():
        listing.add_row(name, *_cells(one))
    if len(scores.sequences) > 1:
        listing.add_row("all together", *_cells(scores.combined))
    out.print(listing)
    if scores.classes is None:
        return
    out.print()
    listing = _listing("class")
    for label, one in scores.per_class.items():
        listing.add_row(class_title(label, scores), *_cells(one))
    for name, attribute in AVERAGES.items():
        listing.add_row(name, *_cells(getattr(scores, attribute)))
    out.print(listing)


def _listing(first: str) -> Any:
    return table(first, *(f">{TITLES.get(column, column)}" for column in COLUMNS))


def _cells(scores: Scores) -> list[str]:
    return [f"{int(scores[name]):,}" if name in COUNTED else f"{100 * scores[name]:.3f}" for name in COLUMNS]


def _print_switches(out: Console, switches: Sequence[Switch]) -> None:
    out.print()
    if not switches:
        out.print("no identity switched")
        return
    causes = ", ".join(f"{cause} {count:,}" for cause, count in causes_of(switches).items())
    out.print(f"identities switched {counted(len(switches), 'time')}: {causes}")
    listing = table("sequence", ">frame", ">object", ">from", ">to", "cause", ">unseen", ">covered", "former result")
    for one in switches[:_LISTED]:
        event = one.event
        numbers = (event.frame, event.truth_id, event.from_id, event.to_id)
        listing.add_row(event.sequence, *map(str, numbers), one.cause, str(one.gap), f"{one.covered:.0%}", one.former)
    out.print(listing)
    if len(switches) > _LISTED:
        out.print(f"… and {len(switches) - _LISTED:,} more; --json has all")


def as_json(config: TrackvalConfig, scores: TrackScores, switches: Sequence[Switch]) -> dict[str, Any]:
    return {
        "made_by": _MADE_BY,
        "truth": config.truth,
        "results": config.results,
        "benchmark": scores.benchmark,
        "class_names": {str(label): name for label, name in scores.class_names.items()},
        "scores": scores.to_dict(),
        "means": {name: _means(one) for name, one in {**scores.sequences, "COMBINED": scores.combined}.items()},
        "events": [event._asdict() for event in scores.frame_events],
        "switches": [
            {**one.event._asdict(), "cause": one.cause, "gap": one.gap, "covered": one.covered,
             "covered_by": one.covered_by, "moved": one.moved, "former": one.former}
            for one in switches
        ],
        "remarks": list(scores.remarks),
    }  # fmt: skip


def _means(scores: Scores) -> dict[str, float]:
    return {name: scores[name] for name in COLUMNS}
