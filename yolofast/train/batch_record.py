"""What every batch of a run cost and held, for `yolofast diagnose`: measured by the step, read once per epoch.

What the device need not compute – learning rate, mosaics, size – stays on the host. Of several ranks the first one
records its own part of the batches.

`batches.csv` of a run's folder: a row per batch, appended epoch by epoch.

A CSV file of a run's folder whose rows begin with their epoch, appended epoch by epoch.

Appending keeps an epoch's cost the same however long the run is; the file is written anew only when a run goes on, and
then without the epochs that will be repeated and without a row that a kill has torn.
"""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from yolofast.files.atomic_file import write_whole
from yolofast.loss.criterion import Criterion
from yolofast.runs.layout import EPOCH, FILES
from yolofast.structures import Batch
from yolofast.train.step import MEASURED, StepRecord, TrainStep


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


COLUMNS = (EPOCH.name, "batch", *MEASURED, "mosaic", "mixup", "lr", "size", "trainable", "assigner")


class BatchFile:
    def __init__(self, folder: Path, next_epoch: int) -> None:
        """Of a run whose next epoch is this one: rows of it and of later ones are dropped."""
        self._file = EpochRowsFile(folder / FILES.batches, COLUMNS, next_epoch)

    def epoch(self, number: int, rows: Iterable[Sequence[float | int | str]]) -> None:
        """Rows without epoch and batch, in the order of the batches."""
        self._file.append((number, batch, *map(_short, row)) for batch, row in enumerate(rows))


def _short(value: float | int | str) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


Value = float | int | str


class BatchRecord:
    """`next_is` before each step, `end_epoch` after the last one."""

    def __init__(self, step: TrainStep, batches: int, folder: Path, next_epoch: int) -> None:
        """`batches` are those of an epoch. Made before the first step, so that graphs capture it."""
        self._step, self._file = step, BatchFile(folder, next_epoch)
        self._measured = step.record = StepRecord(step.precision.device, batches)
        self._known: list[tuple[Value, ...]] = []
        self._trainable, self._assigner = 0, ""

    def start_epoch(self) -> None:
        self._measured.forget()
        self._known.clear()
        self._trainable = sum(p.numel() for p in self._step.model.parameters() if p.requires_grad)
        self._assigner = assigner_of(self._step.criterion)

    def next_is(self, batch: Batch, seen: Batch, lr: float) -> None:
        """A batch as it was made, and as the network will see it."""
        self._measured.next_is(len(self._known))
        mix = (math.nan, math.nan) if batch.mix is None else (batch.mix.mosaic, batch.mix.mixup)
        height, width = seen.images.shape[2:]
        self._known.append((*mix, lr, math.sqrt(height * width), self._trainable, self._assigner))

    def end_epoch(self, number: int) -> None:
        """Waits for the device, as the end of an epoch does anyway."""
        measured = self._measured.read(len(self._known))
        self._file.epoch(number, [(*row, *known) for row, known in zip(measured, self._known, strict=True)])


def assigner_of(criterion: Criterion) -> str:
    """Which assigner a loss has, possibly inside another one; empty if it does not say."""
    inner = getattr(criterion, "criterion", criterion)
    return str(getattr(inner, "assigner", ""))
