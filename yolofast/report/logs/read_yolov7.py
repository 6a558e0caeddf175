"""YOLOv7's `results.txt`: 15 fields per epoch, to 4 digits, without a heading and without learning rates."""

from pathlib import Path

import numpy as np

from yolofast.errors import UserError, shorten
from yolofast.report.logs.history import YOLOV7_LOG, Epochs, Floats, History, Ints, known_losses
from yolofast.report.logs.last_start import last_run
from yolofast.report.logs.read_csv import MOST_EPOCHS, fitness_of
from yolofast.runs.table import KINDS, TORN, bounded, has_no_end, may_be_torn, read_text

_FIELDS = 15
_TOTAL, _MAP50, _MAP, _VAL = 5, 10, 11, slice(12, 15)


def read_results_txt(path: Path) -> History:
    """Its validation loss is always of the `anchor` assigner, so its level says nothing beside training's."""
    numbers, table, remarks = read_table(path)
    epochs = Epochs(
        number=numbers,
        train=known_losses(table[:, _TOTAL]),
        val=table[:, _VAL].sum(axis=1),
        fitness=fitness_of(table[:, _MAP], table[:, _MAP50], len(table)),
        lr=np.full(len(table), np.nan),
    )
    is_evaluated = epochs.val != 0
    epochs.val[~is_evaluated], epochs.fitness[~is_evaluated] = np.nan, np.nan
    return History(source=str(path), format=YOLOV7_LOG, epochs=epochs, same_loss=False, remarks=remarks)


def read_table(path: Path) -> tuple[Ints, Floats, tuple[str, ...]]:
    """Epochs from 1, the fields of each, and remarks; the first field of a row is left 0.

    A run that was resumed writes an epoch again: the last one counts.
    """
    text = read_text(path)
    lines = list(enumerate(text.splitlines(), start=1))
    whole = [(number, line) for number, line in lines if len(line.split()) == _FIELDS]  # a torn line has fewer
    if not whole:
        what = f"holds no line of {_FIELDS} fields, as YOLOv7 writes them"
        raise UserError(what, where=path, fix=f"give {KINDS}")
    # Fields have a width, so all lines are equally long.
    is_torn = has_no_end(text) and (whole[-1] != lines[-1] or may_be_torn([line for _, line in whole]))
    complete = [line for line in whole if not (is_torn and line == lines[-1])]
    found = [_parsed(line.split(), path, number) for number, line in complete]
    start, earlier = last_run([epoch + 1 for epoch, _ in found])
    rows = dict(found[start:])
    remarks = ((TORN,) if is_torn else ()) + earlier
    return np.array(sorted(rows)) + 1, bounded(np.array([rows[epoch] for epoch in sorted(rows)])), remarks


def _parsed(fields: list[str], path: Path, line: int) -> tuple[int, list[float]]:
    try:
        numbers = [float(field.rstrip("G")) for field in fields[1:]]
        epoch = int(fields[0].split("/")[0])
        if not 0 <= epoch <= MOST_EPOCHS:
            raise ValueError
        return epoch, [0.0, *numbers]
    except ValueError:
        fix = "give results.txt of a YOLOv7 run"
        raise UserError(f"is {shorten(' '.join(fields))}", where=path, line=line, fix=fix) from None
