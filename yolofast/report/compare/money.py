"""Time and money: who is on the Pareto front, and what runs had reached when another one was over."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from yolofast.report.compare.extrapolation import Guess, extrapolate
from yolofast.report.compare.groups import Curves, Group
from yolofast.report.compare.overtaking import best_until
from yolofast.report.compare.run import MAP, MAP50
from yolofast.report.compare.spread import spread_of

_AT_ONCE = 0.02


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
    """Then it could not simply have gone on: the guess is of a run planned for as many epochs."""


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
            other[0] <= one[0] and other[1] >= one[1] and (other[0] < one[0] or other[1] > one[1]) for other in points
        )
        for one in points
    ]


def at_the_same_time(curves: Sequence[Curves], same_clock: Callable[[str, str], bool]) -> list[AtTheSameTime]:
    """The first and each other one whose hours are known and can be compared with its own, both ways. Ends that almost
    coincide say nothing, nor does spare time that is too short for another epoch."""
    timed = [curve for curve in curves if curve.seconds is not None and np.isfinite(curve.column(MAP)).any()]
    found = []
    for other in (curve for curve in timed[1:] if same_clock(timed[0].name, curve.name)):
        sooner, later = sorted((timed[0], other), key=_end)
        if not math.isclose(_end(sooner), _end(later), rel_tol=_AT_ONCE):
            found += [_beside(later, sooner), _beside(sooner, later)]
    return [one for one in found if one.possible is None or round(one.possible) > one.epochs]


def _beside(curve: Curves, finished: Curves) -> AtTheSameTime:
    assert curve.seconds is not None
    end = _end(finished)
    reached = float(best_until(curve, MAP, np.array([end]))[0])
    done = int((curve.seconds <= end * (1 + 1e-12)).sum())
    if _end(curve) > end:
        return AtTheSameTime(curve.name, finished.name, end / 3600, reached, done)
    possible = end / _end(curve) * len(curve.epoch)
    target = float(curve.epoch[-1]) * end / _end(curve)
    over = curve.schedule_over
    guess = extrapolate(curve.epoch.astype(np.float64), curve.best[MAP], target, schedule_over=over)
    return AtTheSameTime(curve.name, finished.name, end / 3600, reached, done, possible, guess, over)


def _end(curve: Curves) -> float:
    assert curve.seconds is not None
    return float(curve.seconds[-1])
