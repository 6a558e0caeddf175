"""YOLOX's `train_log.txt`: its settings, a line every few iterations, and COCO's table after each evaluation.

Losses have one decimal there, so differences below 0.1 cannot be seen.
"""

import ast
import re
from bisect import bisect
from collections.abc import Set
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.errors import UserError
from yolofast.report.logs.history import YOLOX_LOG, Batches, History, epochs_of, known_losses
from yolofast.report.logs.last_start import last_run, of_incomplete_epoch
from yolofast.report.logs.read_csv import fitness_of
from yolofast.runs.layout import FITNESS_WORDS, MAP, MAP50
from yolofast.runs.table import KINDS, TORN, bounded, has_no_end, read_text

# Nothing is tried twice (`*+`): a log of empty lines, or a cell of spaces, would take its length squared.
_SETTING = re.compile(r"^[^\S\n]*+│\s*+([A-Za-z_]\w*+)\s*+│([^│]*+)│[^\S\n]*+$", re.MULTILINE)
_LONGEST_CELL = 1000
"""With longer numbers Python neither calculates nor prints them."""
_NUMBER = r"([-+.\w]+)"
_RATE = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[a-zA-Z]+)(?=[,\s])"
# A kill may have torn a line within its last fields: what is cut, or goes over into a date, is no line.
_SIZE = r"(?:,\s*size:\s*(\d{1,6})(?=[,\s])|(?!,\s*(?:si|s?(?:$|\d))))"
# A copied terminal breaks lines anywhere between words.
_ITERATION = re.compile(
    r"epoch:\s*(\d{1,7})/\d+,\s*iter:\s*(\d{1,9})/(\d{1,9})(?:(?!epoch:)[\s\S]){0,200}?total_loss:\s*" + _NUMBER
    + r"(?:,\s*iou_loss:\s*" + _NUMBER + r",\s*l1_loss:\s*" + _NUMBER + r")?"
    + r"(?:(?!epoch:)[\s\S]){0,120}?lr:\s*" + _RATE + _SIZE
)  # fmt: skip
# COCO's tables have three digits: with fewer, or where the date of the next line follows at once, a kill has torn it.
_PRECISION = re.compile(
    r"\(AP\)\s*@\[\s*IoU=(0\.50(?::0\.95)?)\s*\|\s*area=\s*all\s*\|\s*maxDets=\s*100\s*\]\s*=\s*"
    r"(-?[01]\.\d{3,})(?![-.\w])"
)
_NO_MOSAIC = re.compile(r"No\s+mosaic\s+aug\s+now")
"""Stands before the first iteration of the first epoch without mosaics, and once more where such a run is resumed."""
_EPOCH = re.compile(r"start\s+train\s+epoch")
"""Stands before that: where it follows, a kill came before the first iteration."""
_REST_OF_LINE = re.compile(r"[,\s]*(?:E(?:T(?:A(?::[^:]*(?::\d*){0,2})?)?)?)?")
"""Of an iteration whose loss and rate are known: the time that is left, or how much of it a kill has left."""

_OVERLAPS = {"0.50:0.95": MAP.title, "0.50": MAP50.title}


def read_train_log(path: Path) -> History:
    text = read_text(path)
    found, remarks = _last_iterations(text)
    if not found:
        what = "holds no line `epoch: …, iter: …, total_loss: …, lr: …`, as YOLOX writes them"
        raise UserError(what, where=path, fix=f"give {KINDS}")
    rows: dict[tuple[int, int], re.Match[str]] = {}
    for match in found:  # a run that was resumed repeats an epoch: the last one counts
        rows[int(match[1]), int(match[2])] = match
    keys = sorted(rows)
    batches = _batches([rows[key] for key in keys], keys, _mosaic_closed(text, found, set(rows.values())))
    epochs = epochs_of(batches, *_fitness(_scores(text, found)))
    incomplete = of_incomplete_epoch({key: int(row[3]) for key, row in rows.items()})
    return History(
        source=str(path),
        format=YOLOX_LOG,
        epochs=epochs,
        batches=batches,
        settings=_settings(text),
        remarks=(*((TORN,) if _is_torn(text, found) else ()), *remarks, *incomplete),
    )


def _is_torn(text: str, found: list[re.Match[str]]) -> bool:
    """Whether there is a last line without an end that nothing was read from."""
    scores = [match.end() for match in _PRECISION.finditer(text, found[-1].end())]
    return has_no_end(text) and not _REST_OF_LINE.fullmatch(text, scores[-1] if scores else found[-1].end())


def _settings(text: str) -> dict[str, Any]:
    """Of names that stand twice the last one; without what is no plain value, or is None."""
    values: dict[str, Any] = {}
    for name, cell in _SETTING.findall(text):
        try:
            values[name] = ast.literal_eval(cell.strip()) if len(cell) <= _LONGEST_CELL else None
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            values[name] = None
    return {name: value for name, value in values.items() if value is not None}


def _mosaic_closed(text: str, found: list[re.Match[str]], used: Set[re.Match[str]]) -> int | None:
    """The first epoch without mosaics; what is said before lines that were replaced does not count."""
    starts = [match.start() for match in found]
    for message in _NO_MOSAIC.finditer(text, starts[0]):
        place = bisect(starts, message.start())
        if place < len(found) and found[place] in used and not _EPOCH.search(text, message.end(), starts[place]):
            return int(found[place][1])
    return None


def _last_iterations(text: str) -> tuple[list[re.Match[str]], tuple[str, ...]]:
    """The lines of the last run, and what has to be said of others."""
    found = list(_ITERATION.finditer(text))
    start, remarks = last_run([int(match[1]) for match in found], [int(match[2]) for match in found])
    return found[start:], remarks


def _batches(rows: list[re.Match[str]], keys: list[tuple[int, int]], mosaic_closed: int | None) -> Batches:
    return Batches(
        epoch=np.array([key[0] for key in keys]),
        loss=known_losses(np.array([_number(row[4]) for row in rows])),
        lr=bounded(np.array([_number(row[7]) for row in rows])),
        contents={} if any(row[8] is None for row in rows) else {"size": np.array([float(row[8]) for row in rows])},
        l1=np.array([_number(row[6]) for row in rows]),
        mosaic_closed=mosaic_closed,
        from_the_first=keys[0] == (1, 1),
    )


def _number(text: str | None) -> float:
    try:
        return float((text or "nan").rstrip(".,"))
    except ValueError:
        return np.nan


def _fitness(scores: dict[int, dict[str, float]]) -> tuple[dict[int, float], str]:
    """Of each epoch, and what it is: a score that no table has is left out of it."""
    columns = {name: np.array([row.get(name, np.nan) for row in scores.values()]) for name in _OVERLAPS.values()}
    known = {name: values for name, values in columns.items() if np.isfinite(values).any()}
    good = fitness_of(known.get(MAP.title), known.get(MAP50.title), len(scores))
    return dict(zip(scores, good.tolist(), strict=True)), next(iter(known)) if len(known) == 1 else FITNESS_WORDS


def read_scores(path: Path) -> dict[int, dict[str, float]]:
    """Epoch from 1 -> its scores by their titles."""
    text = read_text(path)
    return _scores(text, _last_iterations(text)[0])


def _scores(text: str, iterations: list[re.Match[str]]) -> dict[int, dict[str, float]]:
    """A table of average precisions belongs to the epoch of the last iteration before it."""
    ends = np.array([match.end() for match in iterations])
    scores: dict[int, dict[str, float]] = {}
    for match in _PRECISION.finditer(text):
        place = int(np.searchsorted(ends, match.start())) - 1
        if place >= 0:
            scores.setdefault(int(iterations[place][1]), {})[_OVERLAPS[match[1]]] = float(match[2])
    return scores
