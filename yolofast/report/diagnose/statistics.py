"""A curve in a few numbers: level, spread, trend, and how much of the spread is noise from one value to the next."""

from dataclasses import dataclass

import numpy as np
import scipy

from yolofast.report.logs.history import Floats, Ints

STEADY, CALM = 0.05, 0.10
"""Spread over level below which a curve is very stable, and stable."""
_FAR, _NEAREST = 5.0, 5
"""Bends of noise alone are seldom this many times the middle one of so many."""
_MEDIAN = 0.6745
"""Of the sizes of normal noise, in its standard deviations."""


@dataclass(frozen=True)
class CurveStatistics:
    values: int
    mean: float
    std: float
    cv: float
    """Standard deviation over mean."""
    trend: float
    """Change from the first value to the last along a straight line, as a share of the mean."""
    noise: float
    """Standard deviation that is left between neighbours: of the batches, if values are of batches."""
    drift_share: float
    """Of the variance, what is not noise between neighbours: learning, wandering, slow oscillation."""


@dataclass(frozen=True)
class Line:
    """A straight line through values that lie one apart."""

    slope: float
    error: float
    """Standard error of the slope."""
    falls: float
    """Probability of a slope this low without a trend; of one this high is 1 minus it."""


def describe(values: Floats) -> CurveStatistics:
    """NaN and infinite values are omitted."""
    values = values[np.isfinite(values)]
    if not len(values):
        return CurveStatistics(0, *(float("nan"),) * 6)
    mean, std = float(values.mean()), float(values.std())
    noise = noise_between(values)
    rise = fit_line(values).slope * (len(values) - 1) if len(values) > 2 else 0.0
    drift = float(np.clip(1 - noise**2 / std**2, 0, 1)) if std > 0 else 0.0
    return CurveStatistics(len(values), mean, std, std / abs(mean or 1), rise / abs(mean or 1), noise, drift)


def noise_between(values: Floats) -> float:
    """From the differences of neighbours, so that a slow change does not count."""
    return float(np.sqrt(np.mean(np.diff(values) ** 2) / 2)) if len(values) > 1 else 0.0


def noise_near(values: Floats, place: int, width: int = 10) -> float:
    """From the values around a place, beside a line through each three of them: what a network learns is no noise.

    Nor are the first epochs, whose losses may be many times the later ones: bends that are far larger than those next
    to the place are left out. 0 where there are too few values.
    """
    first = max(place - width, 0)
    bends = np.abs(np.diff(values[first : place + width + 1], 2))
    nearest = np.argsort(np.abs(np.arange(len(bends)) + first + 1 - place), kind="stable")[:_NEAREST]
    moved = bends[nearest][bends[nearest] > 0]  # scores of few digits are often the same
    if len(bends) < 3 or not len(moved):
        return 0.0
    usual = np.quantile(moved, 0.5, method="lower")
    return float(np.sqrt(np.mean(bends[bends <= _FAR * usual] ** 2) / 6))


def cautious_noise(values: Floats, first: int, end: int) -> float:
    """Of a curve lowest from `first` to before `end`: the highest of three measures no steep beginning can raise.

    In a short or noisy curve one of them is often far too low by chance, seldom all of them.
    """
    bends, steps = np.abs(np.diff(values, 2)), np.diff(values[:end])
    rises = steps[steps > 0]  # what falls may have been learned
    of_rises = float(np.sqrt(np.mean(rises**2) / 2)) if len(rises) else 0.0
    of_bends = float(np.median(bends)) / (_MEDIAN * 6**0.5) if len(bends) else 0.0
    return max(noise_near(values, first), of_bends, of_rises)


def fit_line(values: Floats, level: Ints | None = None) -> Line:
    """By least squares. `level` numbers groups of values that may lie at heights of their own."""
    count = len(values)
    groups = np.zeros(count) if level is None else level
    heights = (groups[:, None] == np.unique(groups)[None]).astype(np.float64)
    design = np.column_stack((np.arange(count, dtype=np.float64), heights))
    freedom = count - design.shape[1]
    if freedom < 1:
        return Line(0.0, float("inf"), 0.5)
    inverse = np.linalg.pinv(design.T @ design)
    factors = inverse @ design.T @ values
    left = values - design @ factors
    error = float(np.sqrt(max(left @ left / freedom * inverse[0, 0], 0.0)))
    slope = float(factors[0])
    if error == 0:
        return Line(slope, 0.0, 0.5 if slope == 0 else float(slope > 0))
    return Line(slope, error, float(scipy.special.stdtr(freedom, slope / error)))


def calmness(cv: float) -> str:
    return "very stable" if cv < STEADY else "stable" if cv < CALM else "variable"


def in_digits(loss: float) -> str:
    """Four digits, or whole numbers where there are more."""
    return f"{loss:,.0f}" if 1e4 <= abs(loss) < 1e9 else f"{loss:.4g}"
