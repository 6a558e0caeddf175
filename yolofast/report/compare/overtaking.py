"""How curves compare: who overtakes whom, how much a run still moves in its last epochs, values at chosen epochs.

A lead counts once it is larger than what the curves jump about by themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from yolofast.report.compare.compared_run import MAP, MAP50, ComparedRun
from yolofast.report.compare.kinds import Group, KindCurves
from yolofast.report.diagnose.statistics import CurveStatistics, calmness, describe, noise_between
from yolofast.report.logs.history import Floats

WATCHED = (MAP50, MAP, "train/total", "val/total")


@dataclass(frozen=True)
class Stability:
    group: str
    column: str
    epochs: int
    mean: float
    std: float
    cv: float
    trend: float
    """Change over these epochs along a straight line, as a share of the mean."""
    calm: str


@dataclass(frozen=True)
class AtEpochs:
    column: str
    epochs: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]
    """A row per kind of run; nan where it has no such epoch."""


def stability(groups: Sequence[Group], last: int) -> list[Stability]:
    """Of runs of one kind the mean of each figure."""
    found = []
    for name in WATCHED:
        for group in groups:
            curves = [_tail(run, name, last) for run in group.runs]
            if any(curve.values for curve in curves):
                found.append(_of(group.name, name, curves))
    return found


def at_epochs(curves: Sequence[KindCurves], chosen: Sequence[int]) -> list[AtEpochs]:
    epochs = tuple(chosen) or _spread_out(max((int(curve.epoch[-1]) for curve in curves), default=1))
    tables = []
    for name in WATCHED:
        rows = tuple(tuple(_at(curve, name, epoch) for epoch in epochs) for curve in curves)
        if rows and np.isfinite(rows).any():
            tables.append(AtEpochs(name, epochs, rows))
    return tables


def _tail(run: ComparedRun, name: str, last: int) -> CurveStatistics:
    return describe(run.column(name)[-last:])


def _of(group: str, name: str, curves: Sequence[CurveStatistics]) -> Stability:
    known = [curve for curve in curves if curve.values]
    mean, std, cv, trend = (
        float(np.mean([getattr(curve, key) for curve in known])) for key in ("mean", "std", "cv", "trend")
    )
    return Stability(group, name, known[0].values, mean, std, cv, trend, calmness(cv))


def _at(curve: KindCurves, name: str, epoch: int) -> float:
    place = np.flatnonzero(curve.epoch == epoch)
    return float(curve.column(name)[place[0]]) if len(place) else float("nan")


def _spread_out(last: int) -> tuple[int, ...]:
    """A tenth, a quarter, half, three quarters and the end."""
    return tuple(sorted({max(1, round(last * share)) for share in (0.1, 0.25, 0.5, 0.75, 1.0)}))


@dataclass(frozen=True)
class Overtaking:
    """From `at` on, `ahead` leads `behind`, until the next one of the two."""

    ahead: str
    behind: str
    at: float
    unit: str
    """`epoch` or `hours`."""
    by_chance: bool = False
    """At the end the two do not differ beyond chance."""


def overtakings(curves: Sequence[KindCurves], name: str, same_clock: Callable[[str, str], bool]) -> list[Overtaking]:
    """Between the first and each other one; by hours where those of the two can be compared."""
    found: list[Overtaking] = []
    for other in curves[1:]:
        found += _by_epoch(curves[0], other, name)
        if same_clock(curves[0].name, other.name):
            found += _by_hours(curves[0], other, name)
    return found


def _by_epoch(one: KindCurves, other: KindCurves, name: str) -> list[Overtaking]:
    epoch, places, others = np.intersect1d(one.epoch, other.epoch, return_indices=True)
    gap = one.column(name)[places] - other.column(name)[others]
    return _named(one, other, epoch.astype(np.float64), gap, "epoch")


def _by_hours(one: KindCurves, other: KindCurves, name: str) -> list[Overtaking]:
    """While both are training: best so far, because at a given hour one would take the best weights there are.

    Between the ends of epochs along straight lines: as steps, curves of different epochs would cross without end.
    """
    if one.seconds is None or other.seconds is None:
        return []
    end, start = min(one.seconds[-1], other.seconds[-1]), max(one.seconds[0], other.seconds[0])
    clock = np.unique(np.concatenate((one.seconds, other.seconds)))
    clock = clock[(clock >= start) & (clock <= end)]
    gap = _course(one, name, clock) - _course(other, name, clock)
    return _named(one, other, clock / 3600, gap, "hours")


def _course(curve: KindCurves, name: str, clock: Floats) -> Floats:
    assert curve.seconds is not None
    best = curve.best[name]
    known = np.isfinite(best)
    return (
        np.interp(clock, curve.seconds[known], best[known], left=np.nan) if known.any() else np.full(len(clock), np.nan)
    )


def best_until(curve: KindCurves, name: str, clock: Floats) -> Floats:
    """That of the best weights of the epochs that are over at each time; nan before the first."""
    assert curve.seconds is not None
    so_far = curve.best[name]
    done = np.searchsorted(curve.seconds, clock * (1 + 1e-12), side="right") - 1
    return np.where(done >= 0, so_far[np.maximum(done, 0)], np.nan)


def _named(one: KindCurves, other: KindCurves, at: Floats, gap: Floats, unit: str) -> list[Overtaking]:
    known = np.isfinite(gap)
    return [
        Overtaking(one.name, other.name, place, unit) if leads else Overtaking(other.name, one.name, place, unit)
        for place, leads in changes_of_lead(at[known], gap[known])
    ]


def changes_of_lead(at: Floats, gap: Floats) -> list[tuple[float, bool]]:
    """Where `gap` changes its sign for good, and whether it is above 0 from there. The first lead is no change."""
    clear = np.flatnonzero(np.abs(gap) > noise_between(gap))
    found = []
    for before, after in pairwise(clear.tolist()):
        if gap[before] * gap[after] < 0:
            not_yet = np.flatnonzero(np.sign(gap[before:after]) != np.sign(gap[after]))[-1]
            found.append((float(at[before + not_yet + 1]), bool(gap[after] > 0)))
    return found
