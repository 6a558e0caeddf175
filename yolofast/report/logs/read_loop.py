"""Logs of hand-written loops around YOLOX: lines `iter i/n - loss: total, iou, l1, conf, cls, lr`.

The numbers come in this order, with or without their names. An epoch that is not named begins where iterations start
again. A run resumed in the same log begins within the line that a kill has torn, which has no end.
"""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from yolofast.errors import UserError
from yolofast.report.logs.history import Batches, History, epochs_of, known_losses
from yolofast.report.logs.last_start import last_run, of_incomplete_epoch
from yolofast.runs.table import TORN, bounded, has_no_end, may_be_torn, read_text

_LINE = re.compile(r"\biter:?\s+(\d{1,9})/(\d{1,9})\s*-\s*loss:\s*(.*)", re.IGNORECASE)
_EPOCH = re.compile(r"(?<![a-z_])[epochitrls]{0,5}?epoch\W{0,3}(\d{1,7})(?!\d)", re.IGNORECASE)
"""Also behind a number, or what is left of the words `epoch`, `iter` and `loss`, that a kill has torn."""
_BEGINNING = re.compile(r"epoch\W{0,3}\d+|iter:?\s+\d+/\d+\s*-\s*loss:", re.IGNORECASE)
"""Of a line behind the losses of another, whatever those end with."""
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:nan|inf|\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?)(?![\w.])", re.IGNORECASE)
_TOTAL, _L1, _LR = 0, 2, 5
_LONGEST_LINE = 10_000
"""What begins again and again within a line is looked for in all that is left of it, each time."""


class _Line(NamedTuple):
    epoch: int
    iteration: int
    total: int
    """Iterations, of an epoch or of the run."""
    numbers: list[float]
    """One at least."""


def is_loop_log(text: str) -> bool:
    return _LINE.search(text) is not None


def read_loop_log(path: Path) -> History:
    text = read_text(path)
    written = _written_lines(text)
    last_words = [line.split()[-1] for line in written if _LINE.search(line)]
    is_torn = has_no_end(text) and _LINE.search(written[-1]) is not None and may_be_torn(last_words)
    lines = _lines(written[:-1] if is_torn else written)
    if not lines:
        raise UserError("no line `iter i/n - loss: …` has a number", where=path, fix="check the log")
    start, earlier = last_run([line.epoch for line in lines], [line.iteration for line in lines])
    rows: dict[tuple[int, int], _Line] = {}
    for line in lines[start:]:
        known = rows.get((line.epoch, line.iteration), line)
        if len(line.numbers) >= len(known.numbers):  # a torn line replaces nothing
            rows[line.epoch, line.iteration] = line
    batches = _batches(rows)
    incomplete = of_incomplete_epoch({key: line.total for key, line in rows.items()})
    remarks = (*((TORN,) if is_torn else ()), *earlier, *incomplete)
    epochs = epochs_of(batches)
    return History(source=str(path), format="log of a loop", epochs=epochs, batches=batches, remarks=remarks)


def _written_lines(text: str) -> list[str]:
    """Without what a kill has torn and another line was written behind."""
    lines = [line[-_LONGEST_LINE:] for line in text.splitlines()]
    losses = [match for match in map(_LINE.search, lines) if match]
    # Some loops name the epoch behind the losses of every line, which is no other line.
    is_named_last = 2 * sum(_EPOCH.search(match[3]) is not None for match in losses) > len(losses)
    return lines if is_named_last else [_last_begun(line) for line in lines]


def _last_begun(line: str) -> str:
    while (match := _LINE.search(line)) and (again := _BEGINNING.search(line, match.start(3))):
        line = line[again.start() :]
    return line


def _lines(written: list[str]) -> list[_Line]:
    found = []
    epoch, before, named = 1, 0, False
    for line in written:
        match = _LINE.search(line)
        if given := _EPOCH.findall(line if match is None else line[: match.start()]):
            epoch, named = int(given[0 if match is None else -1]), True  # before a torn one's may stand another
        if match is None:
            continue
        iteration, numbers = int(match[1]), [float(number) for number in _NUMBER.findall(match[3])]
        epoch += not named and iteration <= before
        before = iteration
        if numbers:
            found.append(_Line(epoch, iteration, int(match[2]), numbers))
    return found


def _batches(rows: dict[tuple[int, int], _Line]) -> Batches:
    complete = any(len(line.numbers) > _LR for line in rows.values())
    count = _LR + 1 if complete else 1
    keys = sorted(key for key, line in rows.items() if len(line.numbers) >= count)  # a torn line has fewer
    epoch, columns = np.array([key[0] for key in keys]), np.array([rows[key].numbers[:count] for key in keys])
    return Batches(
        epoch=epoch + (1 if epoch.min() < 1 else 0),
        loss=known_losses(columns[:, _TOTAL]),
        lr=bounded(columns[:, _LR]) if complete else np.full(len(keys), np.nan),
        l1=columns[:, _L1] if complete else None,
        from_the_first=keys[0] in ((0, 0), (0, 1), (1, 0), (1, 1)),
    )
