"""Whether a run goes on, from the times of its files alone: no process is asked, it may be on another machine.

A run says that it has ended with `summary.json`, and that it was interrupted with `interrupted.json`, which it removes
when it goes on. One that was killed says nothing; it counts as stopped when nothing was written for much longer than
its epochs take.
"""

from dataclasses import dataclass
from typing import Literal

State = Literal["running", "finished", "stopped"]

_FIRST_EPOCH = 1800.0
"""Seconds that a run may be silent before its first row: nobody knows yet how long its epochs are."""
_SLACK = 120.0
_EPOCHS_OF_SILENCE = 3
_COPYING = 60.0
"""Copied folders have the times of copying, in any order."""


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
    """A resumed run has newer settings than the summary of what it goes on from, or more rows; or it wants more rows,
    and was interrupted before their first."""
    has_all = signs.epochs is not None and signs.rows >= max(signs.epochs, 1)
    if signs.summary_epochs is None:
        return has_all and not signs.interrupted
    if signs.rows > signs.summary_epochs:
        return False
    return has_all or (not signs.interrupted and signs.settings_at <= signs.summary_at + _COPYING)
