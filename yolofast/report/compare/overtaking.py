"""How curves compare: who overtakes whom, how much a run still moves in its last epochs, values at chosen epochs.

A lead counts once it is larger than what the curves jump about by themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from yolofast.report.compare.compared_run import MAP, MAP50
from yolofast.report.compare.kinds import Group, KindCurves
from yolofast.report.diagnose.statistics import calmness, describe, noise_between
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
            curves = [describe(run.column(name)[-last:]) for run in group.runs]
            if known := [curve for curve in curves if curve.values]:
                keys = ("mean", "std", "cv", "trend")
                mean, std, cv, trend = (float(np.mean([getattr(curve, key) for curve in known])) for key in keys)
                found.append(Stability(group.name, name, known[0].values, mean, std, cv, trend, calmness(cv)))
    return found


def at_epochs(curves: Sequence[KindCurves], chosen: Sequence[int]) -> list[AtEpochs]:
    """Those the user has chosen, or a tenth, a quarter, half, three quarters and the end."""
    last = max((int(curve.epoch[-1]) for curve in curves), default=1)
    epochs = tuple(chosen) or tuple(sorted({max(1, round(last * share)) for share in (0.1, 0.25, 0.5, 0.75, 1.0)}))
    tables = []
    for name in WATCHED:
        rows = tuple(tuple(_at(curve, name, epoch) for epoch in epochs) for curve in curves)
        if rows and np.isfinite(rows).any():
            tables.append(AtEpochs(name, epochs, rows))
    return tables


def _at(curve: KindCurves, name: str, epoch: int) -> float:
    place = np.flatnonzero(curve.epoch == epoch)
    return float(curve.column(name)[place[0]]) if len(place) else float("nan")


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
        gaps = [("epoch", _by_epoch(curves[0], other, name))]
        if same_clock(curves[0].name, other.name):
            gaps.append(("hours", _by_hours(curves[0], other, name)))
        for unit, (at, gap) in gaps:
            known = np.isfinite(gap)
            for place, leads in changes_of_lead(at[known], gap[known]):
                ahead, behind = (curves[0], other) if leads else (other, curves[0])
                found.append(Overtaking(ahead.name, behind.name, place, unit))
    return found


def _by_epoch(one: KindCurves, other: KindCurves, name: str) -> tuple[Floats, Floats]:
    """Epochs, and by how much the first leads."""
    epoch, places, others = np.intersect1d(one.epoch, other.epoch, return_indices=True)
    return epoch.astype(np.float64), one.column(name)[places] - other.column(name)[others]


def _by_hours(one: KindCurves, other: KindCurves, name: str) -> tuple[Floats, Floats]:
    """While both are training: best so far, because at a given hour one would take the best weights there are.

    Between the ends of epochs along straight lines: as steps, curves of different epochs would cross without end.
    """
    if one.seconds is None or other.seconds is None:
        return np.zeros(0), np.zeros(0)
    end, start = min(one.seconds[-1], other.seconds[-1]), max(one.seconds[0], other.seconds[0])
    clock = np.unique(np.concatenate((one.seconds, other.seconds)))
    clock = clock[(clock >= start) & (clock <= end)]
    return clock / 3600, _course(one, name, clock) - _course(other, name, clock)


def _course(curve: KindCurves, name: str, clock: Floats) -> Floats:
    assert curve.seconds is not None
    known = np.isfinite(curve.best[name])
    if not known.any():
        return np.full(len(clock), np.nan)
    return np.interp(clock, curve.seconds[known], curve.best[name][known], left=np.nan)


def changes_of_lead(at: Floats, gap: Floats) -> list[tuple[float, bool]]:
    """Where `gap` changes its sign for good, and whether it is above 0 from there. The first lead is no change."""
    clear = np.flatnonzero(np.abs(gap) > noise_between(gap))
    found = []
    for before, after in pairwise(clear.tolist()):
        if gap[before] * gap[after] < 0:
            not_yet = np.flatnonzero(np.sign(gap[before:after]) != np.sign(gap[after]))[-1]
            found.append((float(at[before + not_yet + 1]), bool(gap[after] > 0)))
    return found
