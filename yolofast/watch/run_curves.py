"""The curves of a run as its files grow: `results.csv`, a row per epoch, and the losses of `batches.csv`, thinned."""

import math
import secrets
from collections.abc import Collection

from yolofast.runs.layout import BATCH_LOSS, EPOCH, FILES
from yolofast.runs.table import Row, headings, row_of
from yolofast.watch.growing_file import GrowingFile
from yolofast.watch.watched_folder import WatchedFolder

MAX_ROWS = 20_000
_BYTES_AT_ONCE, _BATCH_BYTES_AT_ONCE = 8 * 2**20, 4 * 2**20
MOST = 1200


class EpochRows:
    """Rows are only appended, until `generation` changes: then all of them are new."""

    def __init__(self, folder: WatchedFolder, only: Collection[str] | None = None) -> None:
        """`only`: the columns to keep in memory; with a thousand runs not all of them fit."""
        self._file, self._only = GrowingFile(folder / FILES.results), only
        self._headings: tuple[str, ...] = ()
        self._indices: list[int] = []
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
            row = row_of(line, len(self._headings), self._indices)
            if row is not None and any(value is not None for value in row):
                self._add(row)

    def column(self, name: str) -> list[float | None]:
        if name not in self.columns:
            return []
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def _name_columns(self, names: tuple[str, ...]) -> None:
        self._headings = names
        self._indices = [i for i, name in enumerate(names) if self._only is None or name in self._only]
        self.columns = tuple(names[i] for i in self._indices)

    def _add(self, row: Row) -> None:
        """A repeated epoch replaces its first attempt and all that followed that."""
        place = self.columns.index(EPOCH.name) if EPOCH.name in self.columns else None
        if place is not None and (epoch := row[place]) is not None:
            while self.rows and (last := self.rows[-1][place]) is not None and last >= epoch:
                self.rows.pop()
                self.generation = _new_generation()
        if len(self.rows) < MAX_ROWS:
            self.rows.append(row)


def _new_generation() -> str:
    """Unique, so that a page never joins rows of two starts, or of two servers."""
    return secrets.token_hex(8)


class Thinned:
    """A curve of any length in at most `MOST` points: mean, lowest and highest of equal stretches.

    Neighbours are merged when there are too many, so nothing has to be read again.
    """

    def __init__(self) -> None:
        self.count, self.width = 0, 1
        self._stretches: list[list[float]] = []
        """Sum, number, lowest and highest of the known values."""

    def add(self, value: float | None) -> None:
        """None takes a place on the x axis without a value."""
        if self.count == len(self._stretches) * self.width:
            self._next_stretch()
        self.count += 1
        if value is not None:
            total, known, low, high = self._stretches[-1]
            self._stretches[-1] = [total + value, known + 1, min(low, value), max(high, value)]

    def points(self) -> dict[str, list[float | None]]:
        """x counts values from 1 and is the middle of a stretch; None where nothing is known."""
        ends = [min((i + 1) * self.width, self.count) for i in range(len(self._stretches))]
        shown = [(one[0] / one[1], *one[2:]) if one[1] else (None, None, None) for one in self._stretches]
        columns = {name: [row[i] for row in shown] for i, name in enumerate(("y", "low", "high"))}
        return {"x": [(i * self.width + 1 + end) / 2 for i, end in enumerate(ends)], **columns}

    def _next_stretch(self) -> None:
        if len(self._stretches) == MOST:
            pairs = zip(self._stretches[::2], self._stretches[1::2], strict=True)
            self._stretches = [[a[0] + b[0], a[1] + b[1], min(a[2], b[2]), max(a[3], b[3])] for a, b in pairs]
            self.width *= 2
        self._stretches.append([0.0, 0, math.inf, -math.inf])


class BatchCurve:
    def __init__(self, folder: WatchedFolder) -> None:
        self._file = GrowingFile(folder / FILES.batches)
        self._columns: tuple[str, ...] = ()
        self.loss = Thinned()

    def refresh(self) -> bool:
        """Reads the next part; returns whether there is more."""
        news = self._file.news(_BATCH_BYTES_AT_ONCE)
        if news.restarted:
            self._columns, self.loss = (), Thinned()
        lines = iter(news.lines)
        if not self._columns and news.lines:
            self._columns = headings(next(lines))
        indices = [self._columns.index(BATCH_LOSS)] if BATCH_LOSS in self._columns else []
        for line in lines if indices else ():
            if (row := row_of(line, len(self._columns), indices)) is not None:
                self.loss.add(row[0])
        return news.more
