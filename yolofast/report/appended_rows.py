"""The rows of the last run in a CSV file to which several have written.

Rows in any order are no second run: only where rows are repeated does it matter in which order they stand. Rows without
a training loss say nothing of it, because some loggers write validation apart.
"""

import dataclasses

import numpy as np

from yolofast.report.last_run import last_run
from yolofast.runs.table import Columns


def of_last_run(columns: Columns, losses: list[str], *names: str) -> tuple[Columns, tuple[str, ...]]:
    """`names` are the columns that tell rows apart, the epoch first if there is one; `losses` those of training."""
    if not all(name in columns for name in names):
        return columns, ()
    trained = [row for row in range(len(columns)) if any(columns.text[name][row] for name in losses)]
    keys = {tuple(columns.text[name][row] for name in names) for row in trained}
    epochs = columns.numbers(names[0])
    if len(keys) == len(trained) or not (np.abs(epochs) < 2**53).all():
        return columns, ()
    iterations = columns.numbers(names[1])[trained].tolist() if len(names) > 1 else []
    numbers, unit = epochs[trained].astype(int), "epoch" if names[0] == "epoch" else "iteration"
    start, remarks = last_run((numbers + (unit == "epoch" and epochs.min() < 1)).tolist(), iterations, unit)
    first = trained[start] if start else 0
    while start and first - 1 > trained[start - 1] and epochs[first - 1] == epochs[first]:
        first -= 1  # its validation stands before it
    kept = {name: cells[first:] for name, cells in columns.text.items()}
    return dataclasses.replace(columns, text=kept), remarks
