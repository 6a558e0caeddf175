"""A few losses far above all others: an event, and not the noise of batches.

Noise is in every batch, and larger batches calm it. A spike comes from something in particular: an image or a label
that is wrong, a batch of images alike, a step that was too long. So spikes are taken out before the rest is explained,
and named by where they were.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from yolofast.report.diagnose.statistics import STEADY
from yolofast.report.logs.history import Bools, Floats, Ints

_FAR = 10.0
"""Standard deviations of the others, as their median shows them: of all, and of those around it."""
_AROUND = 51
"""Values: where a network wanders with long steps, losses far from the course have others beside them."""
_IN_DEVIATIONS = 1.4826
"""Of normal noise, times the median of its sizes."""
_RARE = 0.01
"""Of all values: more of them are a noise with a long tail."""
_LEAST_SHARE = 0.5
"""Of the variance: below it spikes are there and change nothing."""


@dataclass(frozen=True)
class Spikes:
    places: Ints
    """Among the losses of the history."""
    highest: float
    """Times the course of the others, the highest of them."""
    share: float
    """Of the variance around the course."""

    def __len__(self) -> int:
        return len(self.places)


def beside_medians(losses: Floats) -> Floats:
    """Each loss by the median of those around it: a smooth course would bend towards the very spikes."""
    return np.asarray(losses / scipy.ndimage.median_filter(losses, _AROUND) - 1)


def rare_spikes(left: Floats) -> Bools:
    """Which of values beside their medians are spikes, once what explains them is gone; none if they do not matter."""
    none = np.zeros(len(left), np.bool_)
    usual = _IN_DEVIATIONS * float(np.median(np.abs(left - np.median(left))))
    if not usual > 0:  # nearly all are the same, as where a log has one digit
        return none
    spread = _IN_DEVIATIONS * scipy.ndimage.median_filter(np.abs(left), _AROUND)
    far = left > _FAR * np.maximum(spread, usual)
    if not 0 < far.sum() <= max(1, _RARE * len(left)) or left.std() < STEADY:
        return none
    return np.asarray(far) if share_of(left, far) >= _LEAST_SHARE else none


def share_of(left: Floats, spikes: Bools) -> float:
    """Of the variance, what goes with them."""
    others = left[~spikes]
    return float(1 - others.var() * len(others) / (left.var() * len(left)))
