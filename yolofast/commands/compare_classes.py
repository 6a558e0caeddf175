"""The classes of a comparison: who gains and who loses, with a column per kind as long as they can be read.

Of many kinds the first, the last and the range of all are shown: with a column for each, the words would be broken
letter by letter on paper. JSON has every figure.
"""

from collections.abc import Iterator, Sequence

from yolofast.pages.elements import Cell, Element, Marked, Paragraph, Table
from yolofast.report.compare import words
from yolofast.report.compare.classes import ClassRow
from yolofast.report.compare.comparison import Comparison

_SIDE_BY_SIDE = 5
"""Kinds of run that have columns of their own."""


def class_elements(found: Comparison, names: Sequence[str]) -> Iterator[Element]:
    if not found.classes:
        return
    yield Paragraph(_gains(found.classes, names))
    yield _every_kind(found.classes, names) if len(names) <= _SIDE_BY_SIDE else _range(found.classes, names)


def _gains(rows: Sequence[ClassRow], names: Sequence[str]) -> str:
    gains = [row.gain for row in rows if row.gain is not None]
    more, fewer = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    sure = sum(row.beyond_spread for row in rows)
    repeated = any(row.ap_std[0] is not None and row.ap_std[-1] is not None for row in rows)
    note = f"{sure} of them by more than both standard deviations together, and only those are marked"
    if not repeated:
        note = "without repeated runs of both none is marked: a class moves more from seed to seed than mAP does"
    return f"From {names[0]} to {names[-1]}, {more} classes gain and {fewer} lose; {note}."


def _every_kind(classes: Sequence[ClassRow], names: Sequence[str]) -> Table:
    rows = tuple(
        (row.name, *_scores(row.ap, row.ap_std), _gain(row), *_scores(row.ap50, row.ap50_std)) for row in classes
    )
    columns = ("class", *(f"AP50-95 {name}" for name in names), "gain", *(f"AP50 {name}" for name in names))
    return Table(columns, rows, sortable=True)


def _range(classes: Sequence[ClassRow], names: Sequence[str]) -> Table:
    ends = (names[0], names[-1])
    columns = ("class", *(f"AP50-95 {name}" for name in ends), "gain", "lowest of all", "highest of all")
    rows = tuple(
        (
            row.name,
            *_ends(_scores(row.ap, row.ap_std)),
            _gain(row),
            *_extremes(row.ap, names),
            *_ends(_scores(row.ap50, row.ap50_std)),
        )
        for row in classes
    )
    caption = f"The first and the last of {len(names)} kinds, and the range of AP50-95; --json has the figures of each."
    return Table((*columns, *(f"AP50 {name}" for name in ends)), rows, caption, sortable=True)


def _ends(cells: Sequence[Cell]) -> tuple[Cell, Cell]:
    return cells[0], cells[-1]


def _extremes(values: Sequence[float | None], names: Sequence[str]) -> tuple[str, str]:
    known = [(value, name) for value, name in zip(values, names, strict=True) if value is not None]
    if not known:
        return words.UNKNOWN, words.UNKNOWN
    (low, lowest), (high, highest) = min(known), max(known)
    return f"{words.number(low, 4)} {lowest}", f"{words.number(high, 4)} {highest}"


def _gain(row: ClassRow) -> Cell:
    if row.gain is None or not row.beyond_spread:
        return row.gain
    return Marked(row.gain, "best" if row.gain > 0 else "worse")


def _scores(means: Sequence[float | None], stds: Sequence[float | None]) -> list[Cell]:
    pairs = zip(means, stds, strict=True)
    return [mean if std is None else words.around(mean, std) for mean, std in pairs]
