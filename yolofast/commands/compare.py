"""`yolofast compare`: runs side by side, as a page, as Markdown or JSON, and a summary in the terminal."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from yolofast.checkpoint.read import contents_of
from yolofast.config.flags import from_args
from yolofast.config.reports import CompareConfig
from yolofast.errors import UserError
from yolofast.files.atomic_file import write_output
from yolofast.files.own_file import mark, refuse_foreign
from yolofast.pages.html import render_page
from yolofast.pages.markdown import render_markdown
from yolofast.report.compare import words
from yolofast.report.compare.compared_run import ComparedRun, WeightsFile
from yolofast.report.compare.comparison import MADE_BY, CompareRequest, Comparison, as_json, compare
from yolofast.report.compare.comparison_page import page_of, tracking_of
from yolofast.report.compare.figures import ComparedRow
from yolofast.report.compare.read_folder import read_runs
from yolofast.runs.layout import FILES, SPEED, metrics
from yolofast.runs.tracking import tracked_differently
from yolofast.terminal.console import console, table
from yolofast.words import own_command

_SIDE_BY_SIDE = 3
"""Kinds of run that fit side by side in a terminal; more are a row each."""
_LISTED = ("epochs", "hours", SPEED.title, "GPU memory, GiB")
"""With the metrics, the columns of that listing."""
_STANDARD_OUTPUT = "-"
_ENDINGS = {"output": (".html", ".htm"), "markdown": (".md", ".markdown"), "json": (".json",)}
_WRITES = {"output": "a page of HTML", "markdown": "Markdown", "json": "JSON"}
_READ = (FILES.best, FILES.last)
_MOST = 30


def run(args: argparse.Namespace) -> None:
    config = from_args(CompareConfig, args)
    request = _request(config)
    _refuse_other_formats(config)
    targets = [
        Path(name) for name in (config.output, config.markdown, config.json) if name not in (None, _STANDARD_OUTPUT)
    ]
    for path in targets:
        refuse_foreign(path, MADE_BY)
    found = compare([_with_weights(one) for one in read_runs(config.runs, config.names)], request)
    page = page_of(found)
    _write(Path(config.output), render_page(page) + mark(MADE_BY))
    if config.markdown is not None:
        _write(Path(config.markdown), f"{render_markdown(page)}\n{mark(MADE_BY)}")
    if config.json == _STANDARD_OUTPUT:
        print(json.dumps(as_json(found), indent=2))
        return
    if config.json is not None:
        _write(Path(config.json), json.dumps(as_json(found), indent=2) + "\n")
    _print(console(), found)
    print(f"written: {', '.join(str(path) for path in targets)}")


def _request(config: CompareConfig) -> CompareRequest:
    if len(config.runs) < 2:
        raise UserError("one run cannot be compared", fix=f"give two folders or more: {own_command()} compare RUN RUN")
    for flag, given in (("--hours", config.hours), ("--pace", config.pace)):
        if given and len(given) != len(config.runs):
            raise UserError(f"{flag} has {len(given)} numbers for {len(config.runs)} runs", fix="give one for each run")
    return CompareRequest(
        price=config.price, epochs=tuple(sorted(set(config.epochs))), last=config.last, groups=config.group,
        hours=config.hours, pace=config.pace, images=config.images,
    )  # fmt: skip


def _write(path: Path, text: str) -> None:
    write_output(path, text.encode("utf-8", errors="replace"))


def _print(out: Console, found: Comparison) -> None:
    names = [group.name for group in found.groups]
    if len(names) <= _SIDE_BY_SIDE:
        out.print(_side_by_side(found, names))
    else:
        out.print(_row_each(found, names))
        _lines(out, [f"changes are from {names[0]}; * is the best of its column"])
    several = [group for group in found.groups if len(group) > 1]
    _lines(out, [f"{group.name}: {len(group)} runs, {', '.join(run.name for run in group.runs)}" for group in several])
    _lines(out, ["", *_differences(found)])
    for measure, listed in found.overtakings.items():
        _lines(out, [f"{measure}: {text}" for text in words.overtakings(listed)])
    for name, tracked in tracking_of(found).items():
        _lines(out, [f"tracking, {name}: {text}" for text in tracked.words()])
    if warning := tracked_differently(tracking_of(found)):
        _lines(out, [f"tracking: {warning}"])
    _lines(out, [f"equal time: {words.same_time(one)}" for one in found.at_the_same_time])
    _lines(out, [f"{remark.kind}: {remark.text}" for remark in found.remarks])
    conclusions = [f"{one.kind}: {one.text}" for one in found.conclusions]
    nothing = "all runs are of one kind, so there is nothing to compare; --group none separates them"
    _lines(out, ["", *(conclusions or [nothing])])
    _lines(out, [f"advice: {one}" for one in found.uses])


def _side_by_side(found: Comparison, names: list[str]) -> Table:
    """Each kind with its change from the first."""
    listing = table("", f">{names[0]}", *(title for name in names[1:] for title in (f">{name}", ">change")), "better")
    for row in found.summary:
        first, *others = (words.spread(value, row.digits) for value in row.values)
        pairs = ((text, words.change(row, place)) for place, text in enumerate(others, start=1))
        listing.add_row(row.name, first, *(cell for pair in pairs for cell in pair), words.winner(row, names))
    return listing


def _row_each(found: Comparison, names: list[str]) -> Table:
    listed = {*_LISTED, *(metric.title for metric in metrics())}
    rows = [row for row in found.summary if row.name in listed or row.name.startswith("cost")]
    listing = table("", *(f">{row.name}" for row in rows))
    for place, name in enumerate(names):
        listing.add_row(name, *(_cell(row, place) for row in rows))
    return listing


def _cell(row: ComparedRow, place: int) -> str:
    """The best has a star; changes are from the first kind."""
    share = row.change(place) if place else None
    change = "" if share is None else f" {share:+.1%}"
    return words.spread(row.values[place], row.digits) + change + ("*" if row.winner == place else "")


def _differences(found: Comparison) -> list[str]:
    differences, names = found.differences, [run.name for run in found.runs]
    lines = [f"differs, {one.kind}: {one.key} {words.difference(one, names)}" for one in differences.that_matter]
    rest = len(differences.differ) - len(differences.that_matter)
    counts = f"{len(differences.equal)} equal, {len(differences.partly)} known of some trainers only"
    return [*lines, f"settings: {len(differences.that_matter)} differ, {rest} names and seeds differ, {counts}"]


def _lines(out: Console, lines: Sequence[str]) -> None:
    for line in lines:
        out.print(words.printable(line), soft_wrap=True)


def _with_weights(run: ComparedRun) -> ComparedRun:
    """Those of `_READ` first."""
    found = [path for path in (run.folder / FILES.weights).glob("*.pt") if path.is_file()]
    found.sort(key=lambda path: (path.name not in _READ, path.name))
    return replace(run, weights=tuple(_weights_file(path) for path in found[:_MOST]))


def _weights_file(path: Path) -> WeightsFile:
    """Of a file that cannot be read, the size alone."""
    file = WeightsFile(name=path.name, bytes=path.stat().st_size)
    try:
        return replace(file, entries=contents_of(path)) if path.name in _READ else file
    except UserError as error:
        return replace(file, problem=error.what)


def _refuse_other_formats(config: CompareConfig) -> None:
    """A name that ends like another format is a mistake, and the next call could replace a page with it."""
    for flag, what in _WRITES.items():
        name = getattr(config, flag)
        ending = "" if name is None else Path(name).suffix.lower()
        other = next((one for one, endings in _ENDINGS.items() if ending in endings and one != flag), None)
        if other is not None:
            raise UserError(f"--{flag} writes {what}", where=name, fix=f"for {_WRITES[other]}: --{other} {name}")
