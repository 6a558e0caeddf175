"""What a run might have reached with more epochs, and how little that is worth.

Three families of curves are fitted to the best value so far: one that saturates exponentially, one as a power, one that
goes on with the logarithm. How wrong the guess may be is measured on the run itself: the same method sees only its
beginning and guesses its end. A family is chosen by that, and the range given is as wide as that error, or as families
differ that did about as well there. It is a guess all the same: a run planned for more epochs has another schedule.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from yolofast.report.history import Floats

FEWEST = 8
"""Evaluated epochs without which nothing is guessed."""
_SKIPPED = 0.15
"""Of the beginning, which follows the warm-up and not the course."""
_NOTHING = 0.005
"""An error nobody would mind."""


@dataclass(frozen=True)
class Guess:
    value: float
    low: float
    high: float
    family: str
    error: float
    """Of the same method on the run itself."""
    checked: float
    """By which factor it was asked to see ahead there; beyond that the error is scaled up."""
    factor: float


def extrapolate(epoch: Floats, value: Floats, target: float) -> Guess | None:
    """`value`, the best so far, at the epoch `target` beyond the last; None with too few values. It cannot fall."""
    known = np.isfinite(value) & (epoch > 0)
    epoch, value = epoch[known], value[known]
    if len(epoch) < FEWEST or target <= epoch[-1] or value[-1] <= 0:
        return None
    factor = float(target / epoch[-1])
    shown = max(FEWEST // 2 + 2, int(np.searchsorted(epoch, epoch[-1] / factor, side="right")))
    checked = float(epoch[-1] / epoch[shown - 1])
    errors = {
        name: abs(_at(family, epoch[:shown], value[:shown], float(epoch[-1])) - float(value[-1]))
        for name, family in _FAMILIES.items()
    }
    family = min(errors, key=lambda name: errors[name])
    likely = [name for name, error in errors.items() if error <= 2 * errors[family] + _NOTHING]
    guesses = {name: _at(_FAMILIES[name], epoch, value, target) for name in likely}
    scale = max(1.0, math.log(factor) / math.log(checked)) if checked > 1 else 1.0
    half = max(errors[family] * scale, (max(guesses.values()) - min(guesses.values())) / 2)
    reached = float(value[-1])
    best = max(guesses[family], reached)
    return Guess(best, max(reached, best - half), min(1.0, best + half), family, errors[family], checked, factor)


def _at(basis: Callable[[Floats, float], Floats], epoch: Floats, value: Floats, target: float) -> float:
    """The least-squares curve a + b · basis(epoch) of the shape that fits best, at `target`."""
    first = min(int(_SKIPPED * len(epoch)), len(epoch) - 4)
    epoch, value = epoch[first:], value[first:]
    fits = [_line(basis(epoch, shape), value) for shape in _SHAPES]
    best = int(np.argmin([error for _, _, error in fits]))
    (level, slope, _), shape = fits[best], _SHAPES[best]
    reached = level + slope * float(basis(np.array([target]), shape)[0])
    return float(np.clip(reached, 0.0, 1.0))


def _line(x: Floats, y: Floats) -> tuple[float, float, float]:
    """Level, slope that never falls, and the squared error."""
    spread = x - x.mean()
    slope = max(0.0, float(spread @ (y - y.mean())) / max(float(spread @ spread), 1e-30))
    level = float(y.mean() - slope * x.mean())
    left = y - level - slope * x
    return level, slope, float(left @ left)


_SHAPES = tuple(np.geomspace(0.05, 20, 60).tolist())
_FAMILIES: dict[str, Callable[[Floats, float], Floats]] = {
    "exponential": lambda epoch, shape: -np.exp(-epoch * shape / 20),
    "power": lambda epoch, shape: -(epoch ** -min(shape, 4.0)),
    "logarithm": lambda epoch, shape: np.log(epoch),
}
