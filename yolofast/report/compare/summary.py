"""The runs in a table: a row per figure, the difference from the first kind of run, and who is better.

A row has no winner where neither direction is good, where values cannot be compared, where they are equal, and where
repeated runs do not tell them apart.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from yolofast.report.compare.groups import Group
from yolofast.report.compare.run import MAP, MAP50, Run
from yolofast.report.compare.spread import SURE, Spread, spread_of, welch
from yolofast.runs.layout import FILES, SPEED, WAIT, metrics

HIGHER, LOWER, NEITHER = "higher", "lower", ""
HOURS, GPU_BUSY, WEIGHTS = "hours", "GPU busy, %", f"{FILES.best}, MB"
_COST = "cost at"
NOT_MEASURED = "not measured (--profile-every)"


@dataclass(frozen=True)
class Figure:
    name: str
    better: str
    value: Callable[[Run], float]
    digits: int = 3


@dataclass(frozen=True)
class Row:
    name: str
    better: str
    values: tuple[Spread | None, ...]
    digits: int
    winner: int | None
    remark: str = ""

    def change(self, place: int) -> float | None:
        """Relative to the first kind; None where either is unknown or the first is 0."""
        first, value = self.values[0], self.values[place]
        if first is None or value is None or first.mean == 0:
            return None
        return value.mean / first.mean - 1


def figures(price: float | None) -> list[Figure]:
    listed = [
        *(Figure(metric.title, metric.better, partial(_at_best, metric.title), 4) for metric in metrics()),
        Figure("best epoch", NEITHER, _best_epoch, 0),
        Figure("mAP50, last epoch", HIGHER, lambda run: run.last(MAP50), 4),
        Figure("mAP50-95, last epoch", HIGHER, lambda run: run.last(MAP), 4),
        Figure("train loss, last epoch", LOWER, lambda run: run.last("train/total"), 4),
        Figure("val loss, last epoch", LOWER, lambda run: run.last("val/total"), 4),
        Figure("epochs", NEITHER, lambda run: len(run.epoch), 0),
        Figure(HOURS, LOWER, lambda run: run.hours, 3),
        Figure("seconds per epoch", LOWER, lambda run: 3600 * run.hours / len(run.epoch), 2),
        Figure("it/s", HIGHER, lambda run: _known(run.timing.iterations_per_second), 2),
        Figure(SPEED.title, HIGHER, images_per_second, 1),
        Figure(GPU_BUSY, HIGHER, _busy, 1),
        Figure("wait for data, %", LOWER, _wait, 1),
        Figure("GPU memory, GiB", LOWER, _memory, 2),
        Figure(WEIGHTS, LOWER, _weights, 1),
        Figure("mAP50-95 per hour", HIGHER, lambda run: run.per_hour(MAP), 4),
    ]
    if price is not None:
        listed.append(Figure(f"{_COST} {price:g} per hour", LOWER, lambda run: run.hours * price, 2))
    return listed


def summarise(groups: Sequence[Group], price: float | None, not_comparable: dict[str, str]) -> list[Row]:
    """`not_comparable`: names of rows -> why no one wins there. Rows nobody knows anything of are left out,
    but for how busy the GPU was: that is always asked, and measured only if the run was told to."""
    rows = []
    for figure in figures(price):
        values = tuple(spread_of(figure.value(run) for run in group.runs) for group in groups)
        if all(value is None for value in values):
            if figure.name == GPU_BUSY:
                rows.append(Row(figure.name, figure.better, values, figure.digits, None, _why_not_measured(groups)))
            continue
        reason = not_comparable.get(HOURS if figure.name.startswith(_COST) else figure.name, "")
        winner, remark = (None, reason) if reason else _winner(groups, values, figure)
        rows.append(Row(figure.name, figure.better, values, figure.digits, winner, remark))
    return rows


def _why_not_measured(groups: Sequence[Group]) -> str:
    runs = [run for group in groups for run in group.runs]
    if all(run.environment.get("gpus") == 0 for run in runs):
        return "no GPU"
    return "not measured (pynvml is missing)" if any(run.profile for run in runs) else NOT_MEASURED


def _winner(groups: Sequence[Group], values: Sequence[Spread | None], figure: Figure) -> tuple[int | None, str]:
    """Copies do not compete."""
    said = [place for place, value in enumerate(values) if value is not None]
    known = [place for place in said if not groups[place].copy_of]
    if figure.better == NEITHER or len(known) < 2:
        return None, "a copy" if figure.better != NEITHER and len(said) > len(known) else ""
    sign = 1 if figure.better == HIGHER else -1

    def worth(place: int) -> float:
        value = values[place]
        return -math.inf if value is None else sign * round(value.mean, figure.digits + 2)

    first, second = sorted(known, key=worth, reverse=True)[:2]
    if worth(first) == worth(second):
        tied = [groups[place].name for place in known if worth(place) == worth(first)]
        return None, "equal" if len(tied) == len(groups) else f"equal: {', '.join(tied)}"
    test = welch(values[second], values[first])
    if test is not None and test.p > SURE:
        return None, f"within chance (p = {test.p:.2g})"
    return first, ""


def images_per_second(run: Run) -> float:
    """As measured, or from iterations and the batch its settings state."""
    timing, batch = run.timing, run.batch
    if timing.images_per_second is not None:
        return timing.images_per_second
    if timing.iterations_per_second is not None and batch:
        return timing.iterations_per_second * batch
    return math.nan


def _at_best(name: str, run: Run) -> float:
    return run.at_best(name)


def _best_epoch(run: Run) -> float:
    return math.nan if run.best is None else float(run.epoch[run.best])


def _busy(run: Run) -> float:
    busy = None if run.profile is None else run.profile.gpu_busy
    return math.nan if busy is None else 100 * busy


def _wait(run: Run) -> float:
    """Over the whole run: a long epoch counts for more than a short one."""
    share = run.column(WAIT.name)
    length = np.ones(len(share)) if run.timing.seconds is None else np.diff(run.timing.seconds, prepend=0.0)
    known = np.isfinite(share) & (length > 0)
    return 100 * float(np.average(share[known], weights=length[known])) if known.any() else math.nan


def _memory(run: Run) -> float:
    known = [value for value in run.column("memory").tolist() if math.isfinite(value)]
    return max(known, default=math.nan) or math.nan  # 0 is that of a run on the CPU


def _weights(run: Run) -> float:
    return next((file.bytes / 1e6 for file in run.weights if file.name == FILES.best), math.nan)


def _known(value: float | None) -> float:
    return math.nan if value is None else value
