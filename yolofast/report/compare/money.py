"""Time and money: who is on the Pareto front, and what runs had reached when another one was over."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    on_front: bool
    """No other is both as cheap and as accurate. None is where accuracies cannot be compared."""

    @property
    def accuracy_per_hour(self) -> float:
        return self.accuracy / self.hours if self.hours > 0 else math.nan


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
    known = []
    for group in groups:
        hours, accuracy = spread_of(run.hours for run in group.runs), accuracy_of(group)
        if hours is not None and math.isfinite(accuracy):
            known.append((group.name, hours.mean, accuracy))
    front = pareto([(hours, accuracy) for _, hours, accuracy in known])
    return [
        Cost(name, hours, None if price is None else hours * price, accuracy, best and comparable)
        for (name, hours, accuracy), best in zip(known, front, strict=True)
    ]


def accuracy_of(group: Group) -> float:
    means = (spread_of(run.at_best(name) for run in group.runs) for name in (MAP, MAP50))
    return next((one.mean for one in means if one is not None), math.nan)


def pareto(points: Sequence[tuple[float, float]]) -> list[bool]:
    """For (cost, worth): whether no other point costs no more and is worth no less, and differs."""
    return [
        not any(
            other[0] <= one[0] and other[1] >= one[1] and (other[0] < one[0] or other[1] > one[1]) for other in points
        )
        for one in points
    ]


def at_the_same_time(curves: Sequence[Curves]) -> list[AtTheSameTime]:
    """The first and each other one whose hours are known, both ways. Ends that almost coincide say nothing, nor does
    spare time that is too short for another epoch."""
    timed = [curve for curve in curves if curve.seconds is not None and np.isfinite(curve.column(MAP)).any()]
    found = []
    for other in timed[1:]:
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
