"""A CSV file of a run's folder whose rows begin with their epoch, appended epoch by epoch.

Appending keeps an epoch's cost the same however long the run is; the file is written anew only when a run goes on, and
then without the epochs that will be repeated and without a row that a kill has torn.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from yolofast.atomic_file import write_whole


class EpochRowsFile:
    def __init__(self, path: Path, columns: Sequence[str], next_epoch: int) -> None:
        """Of a run whose next epoch is this one: rows of it and of later ones are dropped."""
        self._path = path
        self.kept = _rows_before(path, len(columns), next_epoch) if next_epoch else []
        write_whole(path, _text([columns, *self.kept]).encode())

    def append(self, rows: Iterable[Sequence[object]]) -> None:
        try:
            with self._path.open("ab") as file:
                file.write(_text(rows).encode())
        except OSError as error:  # that of a full disk names no file
            raise OSError(error.errno, error.strerror, str(self._path)) from error


def _rows_before(path: Path, columns: int, epoch: int) -> list[list[str]]:
    try:
        lines = path.read_text(errors="replace").splitlines(keepends=True)
    except FileNotFoundError:  # of a run that was begun without it
        return []
    rows = [row for row in csv.reader(line for line in lines[1:] if line.endswith("\n")) if len(row) == columns]
    return [row for row in rows if row[0].isdecimal() and int(row[0]) < epoch]


def _text(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
