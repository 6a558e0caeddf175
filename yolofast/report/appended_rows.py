"""The rows of the last run in a CSV file to which several have written.

Rows in any order are no second run: only where rows are repeated does it matter in which order they stand. Rows without
a training loss say nothing of it, because some loggers write validation apart. Iterations alone leave a doubt where all
are equally long, which their losses and learning rates may settle. If not, one that starts again once is taken for
another run, and one that does so again and again for epochs; a remark says so.
"""

import dataclasses

import numpy as np

from yolofast.report.comparable_rows import each_once
from yolofast.report.history import Floats
from yolofast.report.last_run import last_run, of_earlier_runs
from yolofast.report.restarts import Restart, equal_restarts, kinds_of
from yolofast.runs.table import Columns

_CANNOT_TELL = "losses and learning rates do not tell epochs from runs here, a column `epoch` would"


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
    run = last_run((numbers + (unit == "epoch" and epochs.min() < 1)).tolist(), iterations, unit)
    first = trained[run.first] if run.first else 0
    while run.first and first - 1 > trained[run.first - 1] and epochs[first - 1] == epochs[first]:
        first -= 1  # its validation stands before it
    kept = {name: cells[first:] for name, cells in columns.text.items()}
    return dataclasses.replace(columns, text=kept), run.remarks


def of_last_iterations(
    columns: Columns, batch: str, loss: Floats, lr: Floats | None
) -> tuple[Columns, tuple[str, ...]]:
    """As `of_last_run`, of a table without epochs in which every row has a loss."""
    iteration = columns.numbers(batch)
    if not (np.abs(iteration) < 2**53).all():
        return columns, ()
    restarts = equal_restarts(iteration)
    kinds = kinds_of(restarts, loss, lr)
    if set(kinds) <= {Restart.RUN} or kinds == [Restart.UNKNOWN]:
        columns, remarks = of_last_run(columns, [batch], batch)
        doubt = f"; {_CANNOT_TELL}" if Restart.UNKNOWN in kinds else ""
        return (each_once(columns, batch) if remarks else columns), tuple(remark + doubt for remark in remarks)
    runs = [start for start, kind in zip(restarts.tolist(), kinds, strict=True) if kind is Restart.RUN]
    first = runs[-1] if runs else 0
    kept = {name: cells[first:] for name, cells in columns.text.items()}
    remarks = tuple(of_earlier_runs(iteration.astype(int).tolist(), [0, *runs], "iteration"))
    if Restart.UNKNOWN in kinds:
        times = f"{len(restarts)} times" if len(restarts) > 1 else "once"
        remarks += (f"iterations start again {times}, which is taken for epochs of one run: {_CANNOT_TELL}",)
    return dataclasses.replace(columns, text=kept), remarks
