"""`batches.csv` of a run's folder: a row per batch, appended epoch by epoch.

Appending keeps an epoch's cost the same however long the run is; the file is written anew only when a run goes on, and
then without the epochs that will be repeated and without a row that a kill has torn.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from yolofast.atomic_file import write_whole
from yolofast.engine.step_record import MEASURED

BATCH_FILE = "batches.csv"
COLUMNS = ("epoch", "batch", *MEASURED, "mosaic", "mixup", "lr", "size", "trainable", "assigner")


class BatchFile:
    def __init__(self, folder: Path, next_epoch: int) -> None:
        """Of a run whose next epoch is this one: rows of it and of later ones are dropped."""
        self._path = folder / BATCH_FILE
        kept = _rows_before(self._path, next_epoch) if next_epoch else []
        write_whole(self._path, _text([COLUMNS, *kept]).encode())

    def epoch(self, number: int, rows: Iterable[Sequence[float | int | str]]) -> None:
        """Rows without epoch and batch, in the order of the batches."""
        text = _text([(number, batch, *map(_short, row)) for batch, row in enumerate(rows)])
        with self._path.open("ab") as file:
            file.write(text.encode())


def _rows_before(path: Path, epoch: int) -> list[list[str]]:
    try:
        lines = path.read_text(errors="replace").splitlines(keepends=True)
    except FileNotFoundError:  # of a run that was begun without a record
        return []
    rows = [row for row in csv.reader(line for line in lines[1:] if line.endswith("\n")) if len(row) == len(COLUMNS)]
    return [row for row in rows if row[0].isdecimal() and int(row[0]) < epoch]


def _text(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _short(value: float | int | str) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
