"""Losses that are numbers and still say that a run is lost: training watches for them, `diagnose` ships none of them.

A loss that is NaN in training is noticed by itself. One that steps too long often is not: the training loss of a batch
is normalised by that batch, and the network's own statistics, by which it is evaluated, are far off.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from yolofast.runs.layout import TRAIN_LOSS, VAL_LOSS, Column

Floats = npt.NDArray[np.float64]
FIRST_EPOCHS, FIRST_SHARE = 3, 0.1
_ABOVE_START = 10.0
"""Times the first training loss: what phases, assigners and sizes change is far less."""
_ABOVE_TRAINING = 1e3
"""Times the training loss: a validation loss that is summed over a batch is not that far above it."""
_ABOVE_TRAINING_AT_FIRST = 1e9
"""The same in the first epochs, when statistics are behind: 10,000 times were seen in runs that came to good."""


def first_epochs(epochs: int) -> int:
    """How many of a run of so many epochs may have validation losses that say nothing yet."""
    return max(FIRST_EPOCHS, round(FIRST_SHARE * epochs))


def lost_epochs(train: Floats, val: Floats, planned: int) -> list[str]:
    """For each epoch why its weights are of no use, in words; empty where nothing says so.

    Total losses: NaN is not known, infinite is one that was not finite. `planned` is the length of the whole run.
    """
    known = train[np.isfinite(train) & (train > 0)]
    start, first = float(known[0]) if len(known) else float("nan"), first_epochs(planned)
    return [
        _why_lost(float(trained), float(validated), start, early=place < first)
        for place, (trained, validated) in enumerate(zip(train, val, strict=True))
    ]


def _why_lost(train: float, val: float, start: float, early: bool) -> str:
    if train > _ABOVE_START * start:
        return f"the training loss is {train:.3g}, {train / start:,.3g} times that of the first epoch"
    if np.isinf(val):
        return "the validation loss is not finite"
    if train > 0 and val > (_ABOVE_TRAINING_AT_FIRST if early else _ABOVE_TRAINING) * train:
        return f"the validation loss is {val:.3g}, that of training {train:.3g}"
    return ""


def lost_rows(rows: Sequence[Mapping[str, Any]], planned: int) -> list[str]:
    """As `lost_epochs`, from rows of results as training has them."""
    train, val = (np.array([_total(row, pattern) for row in rows]) for pattern in (TRAIN_LOSS, VAL_LOSS))
    return lost_epochs(train, val, planned)


def _total(row: Mapping[str, Any], pattern: Column) -> float:
    terms = [value for name, value in row.items() if pattern.term_in(name) is not None]
    if not terms or any(value is None for value in terms):
        return float("nan")
    total = float(sum(terms))
    return total if np.isfinite(total) else float("inf")
