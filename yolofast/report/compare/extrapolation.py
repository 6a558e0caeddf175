"""What a run might have reached with more epochs, and how little that is worth.

Three families of curves go through the best value at the end: one that saturates exponentially, one as a power, one
that goes on with the logarithm. How wrong the guess may be is measured on the run itself: the same method sees only its
beginning, up to several places, and guesses as far ahead from there. Of the families whose largest error
is about the least the middle guess is taken; the range is as wide as its error, or as those families differ. Where the
learning rate has come to its end the guess is of another run, planned for longer, which may also come out lower.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from yolofast.report.history import Floats

FEWEST = 8
"""Evaluated epochs without which nothing is guessed."""
_SKIPPED = 0.5
"""Of the beginning, where a run learns at another pace: without it, tried guesses missed by a fifth to a half less."""
_NOTHING = 0.005
"""An error nobody would mind."""
_LEAST_SHOWN, _ORIGINS = 6, 8
"""Values a guess is tried with at least, and from how many places."""
_TOO_WIDE, _TOO_FAR = 0.5, 2.0
"""A range of this share of what was reached, up and down, says nothing; nor does a guess that looks so much further
ahead than it could be tried."""
Basis = Callable[[Floats, float], Floats]


@dataclass(frozen=True)
class Guess:
    value: float
    low: float
    high: float
    family: str
    error: float
    """The largest of the same method on the run itself."""
    checked: float
    """By which factor it was asked to see ahead there; beyond that the error is scaled up."""
    factor: float


def extrapolate(epoch: Floats, value: Floats, target: float, *, schedule_over: bool = False) -> Guess | None:
    """`value`, the best so far, at the epoch `target` beyond the last; None if that says nothing."""
    known = np.isfinite(value) & (epoch > 0)
    epoch, value = epoch[known], value[known]
    if len(epoch) < FEWEST or target <= epoch[-1] or value[-1] <= 0:
        return None
    reached, factor = float(value[-1]), float(target / epoch[-1])
    shown = max(_LEAST_SHOWN, int(np.searchsorted(epoch, epoch[-1] / factor, side="right")))
    checked = float(epoch[-1] / epoch[shown - 1])
    if factor > _TOO_FAR * checked:
        return None
    errors = {name: _error(basis, epoch, value, shown) for name, basis in _FAMILIES.items()}
    likely = [name for name, error in errors.items() if error <= 2 * min(errors.values()) + _NOTHING]
    guesses = {name: _at(_FAMILIES[name], epoch, value, target) for name in likely}
    family = sorted(likely, key=lambda name: guesses[name])[(len(likely) - 1) // 2]
    best = guesses[family]
    scale = max(1.0, math.log(factor) / math.log(checked)) if checked > 1 else 1.0
    half = max(errors[family] * scale, *(abs(guess - best) for guess in guesses.values()))
    if half > _TOO_WIDE * reached:
        return None
    low = min(reached, max(0.0, best - half)) if schedule_over else max(reached, best - half)
    return Guess(best, low, min(1.0, best + half), family, errors[family], checked, factor)


def _error(basis: Basis, epoch: Floats, value: Floats, shown: int) -> float:
    """What it is off by at most, seeing `shown` values or fewer and asked as far ahead in proportion."""
    factor = float(epoch[-1] / epoch[shown - 1])
    places = np.unique(np.linspace(max(_LEAST_SHOWN, shown // 2), shown, _ORIGINS).astype(int))
    off = []
    for place in places.tolist():
        ahead = float(epoch[place - 1]) * factor
        came = float(np.interp(ahead, epoch, value))
        off.append(abs(_at(basis, epoch[:place], value[:place], ahead) - came))
    return max(off)


def _at(basis: Basis, epoch: Floats, value: Floats, target: float) -> float:
    """The least-squares curve of the shape that fits best, through the last value, at `target`. It never falls."""
    first = min(int(_SKIPPED * len(epoch)), len(epoch) - 4)
    epoch, value = epoch[first:], value[first:]
    fits = [_slope(basis(epoch, shape), value) for shape in _SHAPES]
    best = int(np.argmin([error for _, error in fits]))
    (slope, _), shape = fits[best], _SHAPES[best]
    last, then = basis(np.array([epoch[-1], target]), shape).tolist()
    return float(np.clip(value[-1] + slope * (then - last), 0.0, 1.0))


def _slope(x: Floats, y: Floats) -> tuple[float, float]:
    """Of a line through the last point that never falls, and its squared error."""
    across, up = x - x[-1], y - y[-1]
    slope = max(0.0, float(across @ up) / max(float(across @ across), 1e-30))
    left = up - slope * across
    return slope, float(left @ left)


_SHAPES = tuple(np.geomspace(0.05, 20, 60).tolist())
_FAMILIES: dict[str, Basis] = {
    "exponential": lambda epoch, shape: -np.exp(-epoch * shape / 20),
    "power": lambda epoch, shape: -(epoch ** -min(shape, 4.0)),
    "logarithm": lambda epoch, shape: np.log(epoch),
}
