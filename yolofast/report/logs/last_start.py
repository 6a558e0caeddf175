"""The lines of a log or CSV file that belong to its last run: trainers append to a log that exists.

A run that begins with the first epoch again is another one, and nothing of the earlier one counts. A resumed run
continues near where it stopped, and replaces only the epochs it repeats. Rows in any order are no second run: only
repeated rows are. Rows without a training loss do not count, because some loggers write validation apart.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

import numpy as np

from yolofast.runs.table import Columns


def last_run(
    epochs: Sequence[int], iterations: Sequence[float] = (), unit: str = "epoch"
) -> tuple[int, tuple[str, ...]]:
    """Its first line, and what has to be said of others.

    `epochs`: that of each line, in the order of the log; `iterations` count within an epoch or through all. Of a log
    without epochs its iterations are given in their place, with that `unit`: it is read from where they last started.
    """
    keys = list(zip(epochs, iterations or [0] * len(epochs), strict=True))
    falls = [place for place, (before, now) in enumerate(pairwise(keys), start=1) if now < before]
    starts = [0]
    for place in falls:
        if epochs[place] <= epochs[starts[-1]]:
            starts.append(place)
    first = starts[-1]
    remarks = []
    if first:
        fix = "; if these are epochs of one run, a column `epoch` says so" if unit == "iteration" else ""
        remarks.append(
            f"the log holds {len(starts)} runs, and the last one is read: after {unit} {epochs[first - 1]} it begins "
            f"with {unit} {epochs[first]} again{fix}"
        )
    if falls and falls[-1] > first:
        again, last = falls[-1], max(epochs[falls[-1] :])
        rest = f"; what comes after {unit} {last} is of before" if last < max(epochs[first:]) else ""
        remarks.append(
            f"the run continued with {unit} {epochs[again]} after {unit} {epochs[again - 1]}: of {unit}s it repeated "
            f"the last ones are read{rest}"
        )
    return first, tuple(remarks)


def of_incomplete_epoch(totals: Mapping[tuple[int, int], int]) -> list[str]:
    """Epoch and iteration of the lines that were read -> of how many, by the line itself: the last epoch is incomplete
    if others of as many had room for another line. That may be the iterations of an epoch, or of the whole run."""
    total = totals[max(totals)]
    lines = sorted(line for line in totals if totals[line] == total)
    between = [now[1] - before[1] for before, now in pairwise(lines) if now[0] == before[0]]
    (epoch, end), furthest = lines[-1], max(iteration for _, iteration in lines)
    if not between or end + median(between) > furthest:
        return []
    return [f"epoch {epoch} is incomplete: it ends with iteration {end:,}, where others continued to {furthest:,}"]


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
    return dataclasses.replace(columns, text={name: cells[first:] for name, cells in columns.text.items()}), remarks


def without_late_terms(columns: Columns) -> Columns:
    """Without the L1 terms of a run that had them for a part of its epochs only.

    YOLOX switches this term on for the last epochs, and the total steps up without anything getting worse.
    """
    terms = {name: columns.numbers(name) for name in columns.text if name.endswith("/l1_loss")}
    late = [name for name, values in terms.items() if (values == 0).any() and (values > 0).any()]
    return Columns(columns.path, {name: cells for name, cells in columns.text.items() if name not in late})


def each_once(columns: Columns, *names: str) -> Columns:
    """Rows that are alike in all these columns as one: of each cell the last that is not empty.

    A resumed run repeats an epoch, and the later one counts; other loggers write training and validation apart.
    """
    if not all(name in columns for name in names):
        return columns
    rows: dict[tuple[str, ...], list[int]] = {}
    for row, key in enumerate(zip(*(columns.text[name] for name in names), strict=True)):
        rows.setdefault(key, []).append(row)

    def merged(cells: list[str]) -> list[str]:
        return [next((cells[row] for row in reversed(same) if cells[row]), "") for same in rows.values()]

    return Columns(columns.path, {name: merged(cells) for name, cells in columns.text.items()})
