"""A comparison in short: the summary, the differences that matter, who overtakes whom, warnings, the conclusion."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from yolofast.commands.console import table
from yolofast.report.compare import words
from yolofast.report.compare.comparison import Comparison
from yolofast.report.compare.summary import Row
from yolofast.runs.layout import SPEED, metrics

_SIDE_BY_SIDE = 3
"""Kinds of run that fit beside one another in a terminal; more are listed below one another."""
_LISTED = ("epochs", "hours", SPEED.title, "GPU memory, GiB")
"""Beside the metrics."""


def print_comparison(out: Console, found: Comparison) -> None:
    names = [group.name for group in found.groups]
    if len(names) <= _SIDE_BY_SIDE:
        out.print(_beside(found, names))
    else:
        out.print(_below(found, names))
        _lines(out, [f"changes are from {names[0]}; * is the best of its column"])
    several = [group for group in found.groups if len(group) > 1]
    _lines(out, [f"{group.name}: {len(group)} runs, {', '.join(run.name for run in group.runs)}" for group in several])
    _lines(out, ["", *_differences(found)])
    for measure, listed in found.overtakings.items():
        _lines(out, [f"{measure}: {text}" for text in words.overtakings(listed)])
    _lines(out, [f"equal time: {words.same_time(one)}" for one in found.at_the_same_time])
    _lines(out, [f"{remark.kind}: {remark.text}" for remark in found.remarks])
    _lines(out, ["", *(f"{one.kind}: {one.text}" for one in found.conclusions)])
    if not found.conclusions:
        _lines(
            out, ["all runs are of one kind, so there is nothing to compare them with; --group none takes them apart"]
        )


def _beside(found: Comparison, names: list[str]) -> Table:
    """Each kind with its change from the first."""
    listing = table("", f">{names[0]}", *(title for name in names[1:] for title in (f">{name}", ">change")), "better")
    for row in found.summary:
        first, *others = (words.spread(value, row.digits) for value in row.values)
        pairs = ((text, words.change(row, place)) for place, text in enumerate(others, start=1))
        listing.add_row(row.name, first, *(cell for pair in pairs for cell in pair), words.winner(row, names))
    return listing


def _below(found: Comparison, names: list[str]) -> Table:
    listed = {*_LISTED, *(metric.title for metric in metrics())}
    rows = [row for row in found.summary if row.name in listed or row.name.startswith("cost")]
    listing = table("", *(f">{row.name}" for row in rows))
    for place, name in enumerate(names):
        listing.add_row(name, *(_cell(row, place) for row in rows))
    return listing


def _cell(row: Row, place: int) -> str:
    """The best has a star; differences are of the first, in percent."""
    share = row.change(place) if place else None
    change = "" if share is None else f" {share:+.1%}"
    return words.spread(row.values[place], row.digits) + change + ("*" if row.winner == place else "")


def _differences(found: Comparison) -> list[str]:
    differences, names = found.differences, [run.name for run in found.runs]
    lines = [f"differs, {one.kind}: {one.key} {words.difference(one, names)}" for one in differences.that_matter]
    rest = len(differences.differ) - len(differences.that_matter)
    counts = f"{len(differences.equal)} equal, {len(differences.partly)} said by some trainers only"
    return [*lines, f"settings: {len(differences.that_matter)} differ, {rest} names and seeds differ, {counts}"]


def _lines(out: Console, lines: Sequence[str]) -> None:
    for line in lines:
        out.print(words.printable(line), soft_wrap=True)
