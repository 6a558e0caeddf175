"""`results.csv` of a run as it grows: a row per epoch.

The loss of every batch, from `batches.csv`: thinned while it is read, a piece per call.

A curve of any length in a bounded number of points: mean, lowest and highest of equal stretches.

Two neighbours become one when there are too many, so that nothing is kept twice and nothing has to be read again; where
a stretch begins is therefore known only to its width.
"""

import secrets
from collections.abc import Collection
from pathlib import Path

from yolofast.runs.layout import BATCH_LOSS, EPOCH, FILES
from yolofast.runs.table import Row, headings, number, row_of
from yolofast.watch.growing_file import GrowingFile

MAX_ROWS = 20_000
_BYTES_AT_ONCE = 8 * 2**20


class EpochRows:
    """Rows only come after those that are known, until `generation` changes: then all of them are new."""

    def __init__(self, folder: Path, only: Collection[str] | None = None) -> None:
        """`only`: the columns to keep, because of a thousand runs nobody can keep everything."""
        self._file, self._only = GrowingFile(folder / FILES.results), only
        self._headings: tuple[str, ...] = ()
        self._kept: list[int] = []
        self.columns: tuple[str, ...] = ()
        self.rows: list[Row] = []
        self.generation = _new_generation()

    def refresh(self) -> None:
        news = self._file.news(_BYTES_AT_ONCE)
        if news.restarted:
            self._name_columns(())
            self.rows, self.generation = [], _new_generation()
        lines = iter(news.lines)
        if not self._headings and news.lines:
            self._name_columns(headings(next(lines)))
        for line in lines:
            row = row_of(line, len(self._headings), self._kept)
            if row is not None and any(value is not None for value in row):
                self._add(row)

    def column(self, name: str) -> list[float | None]:
        if name not in self.columns:
            return []
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def _name_columns(self, names: tuple[str, ...]) -> None:
        self._headings = names
        self._kept = [i for i, name in enumerate(names) if self._only is None or name in self._only]
        self.columns = tuple(names[i] for i in self._kept)

    def _add(self, row: Row) -> None:
        """An epoch that was repeated takes the place of its first attempt and of all that followed that."""
        place = self.columns.index(EPOCH.name) if EPOCH.name in self.columns else None
        if place is not None and (epoch := row[place]) is not None:
            while self.rows and (last := self.rows[-1][place]) is not None and last >= epoch:
                self.rows.pop()
                self.generation = _new_generation()
        if len(self.rows) < MAX_ROWS:
            self.rows.append(row)


def _new_generation() -> str:
    """Never one that was used before, so that a page does not join rows of two beginnings, or of two servers."""
    return secrets.token_hex(8)


MOST = 1200


class Thinned:
    def __init__(self) -> None:
        self.count, self.width = 0, 1
        self._sums: list[float] = []
        self._known: list[int] = []
        self._low: list[float] = []
        self._high: list[float] = []

    def add(self, value: float | None) -> None:
        """None takes a place without having a value."""
        if self.count == len(self._sums) * self.width:
            self._next_stretch()
        self.count += 1
        if value is not None:
            self._sums[-1] += value
            self._known[-1] += 1
            self._low[-1] = min(self._low[-1], value)
            self._high[-1] = max(self._high[-1], value)

    def points(self) -> dict[str, list[float | None]]:
        """x counts values from 1 and is the middle of a stretch; None where nothing is known."""
        stretches = range(len(self._sums))
        known = [bool(count) for count in self._known]
        ends = [min((i + 1) * self.width, self.count) for i in stretches]
        return {
            "x": [(i * self.width + 1 + end) / 2 for i, end in enumerate(ends)],
            "y": [self._sums[i] / self._known[i] if known[i] else None for i in stretches],
            "low": [self._low[i] if known[i] else None for i in stretches],
            "high": [self._high[i] if known[i] else None for i in stretches],
        }

    def _next_stretch(self) -> None:
        if len(self._sums) == MOST:
            self._halve()
        self._sums.append(0.0)
        self._known.append(0)
        self._low.append(float("inf"))
        self._high.append(float("-inf"))

    def _halve(self) -> None:
        self._sums = [a + b for a, b in zip(self._sums[::2], self._sums[1::2], strict=True)]
        self._known = [a + b for a, b in zip(self._known[::2], self._known[1::2], strict=True)]
        self._low = [min(pair) for pair in zip(self._low[::2], self._low[1::2], strict=True)]
        self._high = [max(pair) for pair in zip(self._high[::2], self._high[1::2], strict=True)]
        self.width *= 2


_BATCH_BYTES_AT_ONCE = 4 * 2**20


class BatchCurve:
    def __init__(self, folder: Path) -> None:
        self._file = GrowingFile(folder / FILES.batches)
        self._columns: tuple[str, ...] = ()
        self.loss = Thinned()

    def refresh(self) -> bool:
        """Reads on; whether there is more, for which it wants to be called again."""
        news = self._file.news(_BATCH_BYTES_AT_ONCE)
        if news.restarted:
            self._columns, self.loss = (), Thinned()
        lines = iter(news.lines)
        if not self._columns and news.lines:
            self._columns = headings(next(lines))
        if BATCH_LOSS in self._columns:
            self._add(list(lines), self._columns.index(BATCH_LOSS))
        return news.more

    def _add(self, lines: list[bytes], place: int) -> None:
        for line in lines:
            cells = line.split(b",")
            if len(cells) == len(self._columns):
                self.loss.add(number(cells[place]))
