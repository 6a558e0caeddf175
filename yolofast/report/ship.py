"""Which epoch to ship, and by which measure.

The best epoch of many is partly luck. Epochs within the noise of one evaluation are taken for equally good, and of
those the one with the lowest validation loss is chosen, which is the one that is surest of what it finds.
"""

from dataclasses import dataclass

import numpy as np

from yolofast.report.history import Epochs, Floats

BY_SCORE = "highest 0.1 · mAP50 + 0.9 · mAP50-95"


@dataclass(frozen=True)
class Choice:
    epoch: int
    criterion: str
    value: float
    noise: float
    """Standard deviation of the measure from one evaluation to the next."""
    best: int
    """The epoch with the highest measure, luck included: that of `best.pt`."""
    as_good: tuple[int, ...]
    """Epochs that cannot be told from the best one."""


def choose_epoch(epochs: Epochs) -> Choice | None:
    """None without anything to choose by."""
    if np.isfinite(epochs.fitness).any() and np.nanmax(epochs.fitness) > 0:
        return _highest(epochs, epochs.fitness, BY_SCORE)
    if np.isfinite(epochs.val).any():
        return _highest(epochs, -epochs.val, "lowest validation loss")
    if np.isfinite(epochs.train).any():
        return _highest(epochs, -epochs.train, "lowest training loss, for want of a validation")
    return None


def _highest(epochs: Epochs, measure: Floats, criterion: str) -> Choice:
    best = int(np.nanargmax(measure))
    known = np.flatnonzero(np.isfinite(measure))
    noise = _noise_near(measure[known], int(np.searchsorted(known, best)))
    good = known[measure[known] >= measure[best] - noise]
    chosen = best
    if measure is epochs.fitness and len(good) > 1 and np.isfinite(epochs.val[good]).all():
        chosen = int(good[epochs.val[good].argmin()])
        criterion += ", within its noise the lowest validation loss"
    value = float(measure[chosen]) if measure is epochs.fitness else -float(measure[chosen])
    return Choice(
        int(epochs.number[chosen]),
        criterion,
        value,
        noise,
        int(epochs.number[best]),
        tuple(epochs.number[good].tolist()),
    )


def _noise_near(values: Floats, best: int, width: int = 10) -> float:
    """From the evaluations around it, beside a line through each three of them: what a network learns is no noise."""
    near = values[max(best - width, 0) : best + width + 1]
    return float(np.sqrt(np.mean(np.diff(near, 2) ** 2) / 6)) if len(near) > 4 else 0.0
