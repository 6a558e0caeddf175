"""Time and money: who is on the Pareto front, and what runs had reached when another one ended.

A run that ended earlier might have reached more with more epochs: a guess from three families of curves through its
last value (exponential, power, logarithm). Its error is measured on the run itself: the same method sees only a
beginning and predicts as far ahead. Of the families with about the least error the middle guess is taken; the range is
as wide as its error, or as the families differ. Where the learning rate has come to its end, the guess is of another
run, planned for longer, which may also end lower.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from yolofast.report.compare.compared_run import MAP, MAP50
from yolofast.report.compare.figures import spread_of
from yolofast.report.compare.kinds import Group, KindCurves
from yolofast.report.logs.history import Floats

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
_AT_ONCE = 0.02
"""Of the time: ends that lie closer almost coincide."""
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


@dataclass(frozen=True)
class Cost:
    group: str
    hours: float
    cost: float | None
    accuracy: float
    """mAP50-95, or mAP50 where that is all there is."""
    accuracy_per_hour: float
    """The mean over its runs, as in the summary, and not the accuracy above by the hours above."""
    on_front: bool
    """No other is both as cheap and as accurate. None is where accuracies or hours cannot be compared."""


@dataclass(frozen=True)
class AtTheSameTime:
    """What `group` had reached after `hours`, when `finished` was over."""

    group: str
    finished: str
    hours: float
    reached: float
    epochs: int
    """Those it had done by then."""
    possible: float | None = None
    """Epochs it could have done by then, at its own pace, if it was over before."""
    guess: Guess | None = None
    """What those might have brought."""
    schedule_over: bool = False
    """Then it could not simply have continued: the guess is of a run planned for as many epochs."""


def costs(groups: Sequence[Group], price: float | None, *, comparable: bool = True) -> list[Cost]:
    """Of the kinds of run whose hours and accuracy are known."""
    known = [cost for cost in (_cost(group, price) for group in groups) if cost is not None]
    front = pareto([(cost.hours, cost.accuracy) for cost in known])
    return [replace(cost, on_front=best and comparable) for cost, best in zip(known, front, strict=True)]


def _cost(group: Group, price: float | None) -> Cost | None:
    hours = spread_of(run.hours for run in group.runs)
    for measure in (MAP, MAP50):
        accuracy = spread_of(run.at_best(measure) for run in group.runs)
        if hours is not None and accuracy is not None:
            each = spread_of(run.per_hour(measure) for run in group.runs)
            cost = None if price is None else hours.mean * price
            return Cost(group.name, hours.mean, cost, accuracy.mean, each.mean if each else math.nan, on_front=False)
    return None


def pareto(points: Sequence[tuple[float, float]]) -> list[bool]:
    """For (cost, worth): whether no other point costs no more and is worth no less, and differs."""
    return [
        not any(
            cost <= own_cost and worth >= own_worth and (cost, worth) != (own_cost, own_worth) for cost, worth in points
        )
        for own_cost, own_worth in points
    ]


def at_the_same_time(curves: Sequence[KindCurves], same_clock: Callable[[str, str], bool]) -> list[AtTheSameTime]:
    """The first and each other one whose hours are known and can be compared with its own, both ways. Ends that almost
    coincide say nothing, nor does spare time that is too short for another epoch."""
    timed = [curve for curve in curves if curve.seconds is not None and np.isfinite(curve.column(MAP)).any()]
    found = []
    for other in (curve for curve in timed[1:] if same_clock(timed[0].name, curve.name)):
        sooner, later = sorted((timed[0], other), key=_end)
        if not math.isclose(_end(sooner), _end(later), rel_tol=_AT_ONCE):
            found += [_when_over(later, sooner), _when_over(sooner, later)]
    return [one for one in found if one.possible is None or round(one.possible) > one.epochs]


def _when_over(curve: KindCurves, finished: KindCurves) -> AtTheSameTime:
    assert curve.seconds is not None
    end = _end(finished)
    done = int((curve.seconds <= end * (1 + 1e-12)).sum())
    reached = float(curve.best[MAP][done - 1]) if done else math.nan
    if _end(curve) > end:
        return AtTheSameTime(curve.name, finished.name, end / 3600, reached, done)
    possible, over = end / _end(curve) * len(curve.epoch), curve.schedule_over
    target = float(curve.epoch[-1]) * end / _end(curve)
    guess = extrapolate(curve.epoch.astype(np.float64), curve.best[MAP], target, schedule_over=over)
    return AtTheSameTime(curve.name, finished.name, end / 3600, reached, done, possible, guess, over)


def _end(curve: KindCurves) -> float:
    assert curve.seconds is not None
    return float(curve.seconds[-1])
