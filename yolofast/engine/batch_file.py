"""`batches.csv` of a run's folder: a row per batch, appended epoch by epoch."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from yolofast.engine.epoch_rows_file import EpochRowsFile
from yolofast.engine.step_record import MEASURED
from yolofast.runs.layout import EPOCH, FILES

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
