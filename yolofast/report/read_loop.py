"""Logs of hand-written loops around YOLOX: lines `iter i/n - loss: total, iou, l1, conf, cls, lr`.

The numbers come in this order, with or without their names. An epoch that is not named begins where iterations start
again.
"""

import re
from pathlib import Path

import numpy as np

from yolofast.errors import UserError
from yolofast.report.history import LOOP_LOG, Batches, History, bounded, epochs_of, known_losses
from yolofast.report.last_run import last_run
from yolofast.report.table_file import read_text

_LINE = re.compile(r"\biter:?\s+(\d+)/\d+\s*-\s*loss:\s*(.*)", re.IGNORECASE)
_EPOCH = re.compile(r"\bepoch\W{0,3}(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:nan|inf|\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?)(?![\w.])", re.IGNORECASE)
_TOTAL, _L1, _LR = 0, 2, 5


def is_loop_log(text: str) -> bool:
    return _LINE.search(text) is not None


def read_loop_log(path: Path) -> History:
    lines = _lines(path)
    if not lines:
        raise UserError("no line `iter i/n - loss: …` has a number", where=path, fix="check the log")
    run = last_run([epoch for epoch, _, _ in lines], [iteration for _, iteration, _ in lines])
    rows: dict[tuple[int, int], list[float]] = {}
    for epoch, iteration, numbers in lines[run.first :]:
        if len(numbers) >= len(rows.get((epoch, iteration), ())):  # a torn line replaces nothing
            rows[epoch, iteration] = numbers
    batches = _batches(rows)
    return History(source=str(path), format=LOOP_LOG, epochs=epochs_of(batches), batches=batches, remarks=run.remarks)


def _lines(path: Path) -> list[tuple[int, int, list[float]]]:
    """Epoch, iteration, and its numbers, of which there is at least one."""
    found = []
    epoch, before, named = 1, 0, False
    for line in read_text(path).splitlines():
        match = _LINE.search(line)
        if given := _EPOCH.search(line if match is None else line[: match.start()]):
            epoch, named = int(given[1]), True
        if match is None:
            continue
        iteration, numbers = int(match[1]), [float(number) for number in _NUMBER.findall(match[2])]
        epoch += not named and iteration <= before
        before = iteration
        if numbers:
            found.append((epoch, iteration, numbers))
    return found


def _batches(rows: dict[tuple[int, int], list[float]]) -> Batches:
    """Of an epoch that was repeated the last one counts."""
    complete = any(len(numbers) > _LR for numbers in rows.values())
    wanted = _LR + 1 if complete else 1
    keys = sorted(key for key, numbers in rows.items() if len(numbers) >= wanted)  # a torn line has fewer
    epoch, columns = np.array([key[0] for key in keys]), np.array([rows[key][:wanted] for key in keys])
    return Batches(
        epoch=epoch + (1 if epoch.min() < 1 else 0),
        loss=known_losses(columns[:, _TOTAL]),
        lr=bounded(columns[:, _LR]) if complete else np.full(len(keys), np.nan),
        l1=columns[:, _L1] if complete else None,
    )
