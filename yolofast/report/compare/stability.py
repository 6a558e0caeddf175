"""How much a run still moves in its last epochs, and its values at chosen epochs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from yolofast.report.compare.groups import Curves, Group
from yolofast.report.compare.run import MAP, MAP50, Run
from yolofast.report.statistics import CurveStatistics, calmness, describe

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


def at_epochs(curves: Sequence[Curves], chosen: Sequence[int]) -> list[AtEpochs]:
    epochs = tuple(chosen) or _spread_out(max((int(curve.epoch[-1]) for curve in curves), default=1))
    tables = []
    for name in WATCHED:
        rows = tuple(tuple(_at(curve, name, epoch) for epoch in epochs) for curve in curves)
        if rows and np.isfinite(rows).any():
            tables.append(AtEpochs(name, epochs, rows))
    return tables


def _tail(run: Run, name: str, last: int) -> CurveStatistics:
    return describe(run.column(name)[-last:])


def _of(group: str, name: str, curves: Sequence[CurveStatistics]) -> Stability:
    known = [curve for curve in curves if curve.values]
    mean, std, cv, trend = (
        float(np.mean([getattr(curve, key) for curve in known])) for key in ("mean", "std", "cv", "trend")
    )
    return Stability(group, name, known[0].values, mean, std, cv, trend, calmness(cv))


def _at(curve: Curves, name: str, epoch: int) -> float:
    place = np.flatnonzero(curve.epoch == epoch)
    return float(curve.column(name)[place[0]]) if len(place) else float("nan")


def _spread_out(last: int) -> tuple[int, ...]:
    """A tenth, a quarter, half, three quarters and the end."""
    return tuple(sorted({max(1, round(last * share)) for share in (0.1, 0.25, 0.5, 0.75, 1.0)}))
