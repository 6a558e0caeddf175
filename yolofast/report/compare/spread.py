"""Several numbers of one kind as mean and standard deviation, and whether two kinds differ by more than chance."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

SURE = 0.05


@dataclass(frozen=True)
class Spread:
    mean: float
    std: float
    """nan for a single number."""
    values: tuple[float, ...]

    @property
    def n(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Test:
    """Welch's t-test of two means; the interval holds the true difference with 95 %, or with what was asked for."""

    difference: float
    low: float
    high: float
    p: float

    __test__ = False  # its name is not one of pytest's


def spread_of(values: Iterable[float]) -> Spread | None:
    """None if nothing is known; what is not a number is left out."""
    known = tuple(float(value) for value in values if math.isfinite(value))
    if not known:
        return None
    return Spread(float(np.mean(known)), float(np.std(known, ddof=1)) if len(known) > 1 else math.nan, known)


def welch(first: Spread | None, other: Spread | None, doubt: float = SURE) -> Test | None:
    """Of `other` minus `first`, with an interval that misses the truth with probability `doubt`. None with fewer than
    two numbers of each, or without any spread to judge by."""
    if first is None or other is None or min(first.n, other.n) < 2 or first.std == other.std == 0:
        return None
    found = stats.ttest_ind(other.values, first.values, equal_var=False)
    low, high = found.confidence_interval(1 - doubt)
    return Test(other.mean - first.mean, float(low), float(high), float(found.pvalue))


def holm(p: Sequence[float]) -> list[float]:
    """The same probabilities, raised so that many comparisons do not find something by their number alone."""
    order, adjusted, highest = np.argsort(p), [0.0] * len(p), 0.0
    for rank, place in enumerate(order.tolist()):
        highest = max(highest, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = highest
    return adjusted


def runs_needed(difference: float, first: Spread, other: Spread) -> int:
    """Of each kind, to see such a difference four times in five at 5 %."""
    variance = (first.std**2 + other.std**2) / 2
    return max(2, math.ceil(2 * (1.96 + 0.84) ** 2 * variance / difference**2)) if difference else 0
