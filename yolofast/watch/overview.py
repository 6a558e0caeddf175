"""One line per run for the list: how far it is, how good, how fast. Files are read only when they have changed.

Whether a run is still running is decided by its files alone, because it may be on another machine. A run that has ended
writes `summary.json`; one that was interrupted has `interrupted.json` until it is resumed. One that was killed writes
nothing: it counts as stopped when nothing was written for much longer than its epochs take.
"""

import re
import time
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any, Literal

from yolofast.runs.layout import EPOCH, FILES, MAP, MAP50, SPEED, TIME, fitness
from yolofast.runs.reader import parse_entries
from yolofast.watch.find_runs import FoundRun
from yolofast.watch.run_curves import EpochRows
from yolofast.watch.watched_folder import FolderFile, Stamp

State = Literal["running", "finished", "stopped"]

_FIRST_EPOCH = 1800.0
"""Seconds without a write before the first row, when the length of an epoch is not known yet."""
_SLACK = 120.0
_EPOCHS_OF_SILENCE = 3
_COPYING = 60.0
"""Copied folders have the times of copying, in any order."""
_LIFE_SIGNS = (FILES.results, FILES.batches, FILES.settings)
_LOOKED_AT = (
    *_LIFE_SIGNS, FILES.environment, FILES.hyp, FILES.summary, FILES.report, FILES.labels, FILES.interrupted,
)  # fmt: skip
_COLUMNS = (EPOCH, TIME, MAP, MAP50, SPEED)
_MAX_SETTINGS = 2**18
_NOTHING_KNOWN: dict[str, Any] = {
    "epoch": 0, "epochs": None, "map": None, "speed": None, "started": 0.0, "updated": 0.0, "report": False,
    "state": "stopped",
}  # fmt: skip
_EPOCHS = re.compile(rb"^epochs:[ \t]*(\d{1,7})[ \t]*\r?$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Signs:
    rows: int
    epochs: int | None
    """How many the settings ask for."""
    longest_epoch: float | None
    """Seconds."""
    summary_epochs: int | None
    """Of `summary.json`; None without one."""
    summary_at: float
    interrupted: bool
    """There is an `interrupted.json`."""
    settings_at: float
    written_at: float
    """When settings, results or batches were last written."""


def state_of(signs: Signs, now: float) -> State:
    if _has_ended(signs):
        return "finished"
    if signs.interrupted:
        return "stopped"
    patience = _FIRST_EPOCH
    if signs.rows:
        patience = _SLACK + _EPOCHS_OF_SILENCE * (signs.longest_epoch or 0.0)
    return "running" if now - signs.written_at < patience else "stopped"


def _has_ended(signs: Signs) -> bool:
    """A resumed run has newer settings than its earlier summary, or more rows; or it is to have more rows, and was
    interrupted before the first of them."""
    has_all = signs.epochs is not None and signs.rows >= max(signs.epochs, 1)
    if signs.summary_epochs is None:
        return has_all and not signs.interrupted
    if signs.rows > signs.summary_epochs:
        return False
    return has_all or (not signs.interrupted and signs.settings_at <= signs.summary_at + _COPYING)


class Overview:
    def __init__(self, run: FoundRun) -> None:
        self._run, self._rows = run, EpochRows(run.folder, only=[column.name for column in _COLUMNS])
        self._stamps: dict[str, Stamp | None] | None = None
        self._facts: tuple[Signs, dict[str, Any]] | None = None
        """What does not depend on the clock."""

    def line(self) -> dict[str, Any]:
        try:
            return self._line()
        except Exception:  # noqa: BLE001 - whatever is wrong with one run, the others are shown
            return {**_NOTHING_KNOWN, "id": self._run.id, "name": self._run.name}

    def _line(self) -> dict[str, Any]:
        stamps = self._run.folder.stamps(_LOOKED_AT)
        if self._facts is None or stamps != self._stamps:
            self._facts = self._read(stamps)
            self._stamps = stamps
        signs, values = self._facts
        return {**values, "state": state_of(signs, time.time())}

    def _read(self, stamps: dict[str, Stamp | None]) -> tuple[Signs, dict[str, Any]]:
        rows = self._rows
        rows.refresh()
        epochs = _planned_epochs(self._run.folder / FILES.settings)
        times = {name: found.seconds for name, found in stamps.items() if found is not None}
        signs = Signs(
            rows=len(rows.rows),
            epochs=epochs,
            longest_epoch=_longest(rows.column(TIME.name)),
            summary_epochs=_epochs_of_summary(self._run.folder / FILES.summary),
            summary_at=times.get(FILES.summary, 0.0),
            interrupted=stamps[FILES.interrupted] is not None,
            settings_at=times.get(FILES.settings, 0.0),
            written_at=max((times[name] for name in _LIFE_SIGNS if name in times), default=0.0),
        )
        values = {
            "id": self._run.id,
            "name": self._run.name,
            "epoch": len(rows.rows),
            "epochs": epochs,
            "map": _of_best_epoch(rows.column(MAP.name), rows.column(MAP50.name)),
            "speed": _whole_speed(rows.column(TIME.name), rows.column(SPEED.name)),
            "started": min(times.values(), default=0.0),
            "updated": max(times.values(), default=0.0),
            "report": stamps[FILES.report] is not None,
        }
        return signs, values


def _planned_epochs(file: FolderFile) -> int | None:
    """Without parsing the file: for a thousand runs that would take many seconds."""
    found = _EPOCHS.search(file.read(_MAX_SETTINGS) or b"")
    return None if found is None else int(found[1])


def _epochs_of_summary(file: FolderFile) -> int | None:
    try:
        epochs = parse_entries(file.name, file.read(_MAX_SETTINGS) or b"")[0]["epochs"]
    except (ValueError, KeyError, TypeError, RecursionError):  # half-written, or of another program
        return None
    return epochs if isinstance(epochs, int) else None


def _longest(times: list[float | None]) -> float | None:
    known = [0.0, *(value for value in times if value is not None)]
    return max((after - before for before, after in pairwise(known)), default=None)


def _of_best_epoch(scores: list[float | None], at_half: list[float | None]) -> float | None:
    """mAP50-95 of the epoch of `best.pt`, as in reports and comparisons; comparison.js has the same rule."""
    both = ((score, half) for score, half in zip_longest(scores, at_half) if score is not None)
    rated = ((fitness(score if half is None else half, score), score) for score, half in both)
    return max(rated, default=(0.0, None))[1]


def _whole_speed(times: list[float | None], speeds: list[float | None]) -> float | None:
    """Images over time of all epochs, as in reports and comparisons; comparison.js has the same rule."""
    images, seconds, before = 0.0, 0.0, 0.0
    for time_now, speed in zip(times, speeds, strict=False):
        if time_now is None:
            continue
        spent, before = time_now - before, time_now
        if speed is not None and spent > 0:
            images, seconds = images + speed * spent, seconds + spent
    return images / seconds if seconds else None
