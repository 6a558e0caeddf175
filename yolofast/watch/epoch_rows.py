"""`results.csv` of a run as it grows: a row per epoch."""

import secrets
from collections.abc import Collection
from pathlib import Path

from yolofast.runs.layout import EPOCH, FILES
from yolofast.runs.table import Row, headings, row_of
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
