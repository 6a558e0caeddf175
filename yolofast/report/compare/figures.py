"""The figures of each kind of run: mean and standard deviation, the change from the first kind, and which is better.

A row has no winner where neither direction is good or values cannot be compared. Nor has it one where they are equal,
or repeated runs do not tell them apart. Classes have rows of their own.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy

from yolofast.report.compare.compared_run import MAP, MAP50, ComparedRun
from yolofast.report.compare.kinds import Group
from yolofast.runs.layout import FILES, MOTION_METRICS, SPEED, WAIT, metrics

SURE = 0.05


@dataclass(frozen=True)
class Spread:
    mean: float
    std: float
    """nan for a single number."""
    values: tuple[float, ...]

    @property
    def n(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Test:
    """Welch's t-test of two means; the interval holds the true difference with 95 %, or with what was asked for."""

    difference: float
    low: float
    high: float
    p: float

    __test__ = False  # its name is not one of pytest's


def spread_of(values: Iterable[float]) -> Spread | None:
    """None if nothing is known; NaN and infinite values are omitted."""
    known = tuple(float(value) for value in values if math.isfinite(value))
    if not known:
        return None
    return Spread(float(np.mean(known)), float(np.std(known, ddof=1)) if len(known) > 1 else math.nan, known)


def welch(first: Spread | None, other: Spread | None, doubt: float = SURE) -> Test | None:
    """Of `other` minus `first`, with an interval that misses the truth with probability `doubt`. None with fewer than
    two numbers of each, or without any spread to judge by."""
    if first is None or other is None or min(first.n, other.n) < 2 or first.std == other.std == 0:
        return None
    found = scipy.stats.ttest_ind(other.values, first.values, equal_var=False)
    low, high = found.confidence_interval(1 - doubt)
    return Test(other.mean - first.mean, float(low), float(high), float(found.pvalue))


def holm(p: Sequence[float]) -> list[float]:
    """The same probabilities, raised so that many comparisons do not find something by their number alone."""
    order, adjusted, highest = np.argsort(p), [0.0] * len(p), 0.0
    for rank, place in enumerate(order.tolist()):
        highest = max(highest, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = highest
    return adjusted


def runs_needed(difference: float, first: Spread, other: Spread) -> int:
    """Of each kind, to see such a difference four times in five at 5 %."""
    variance = (first.std**2 + other.std**2) / 2
    return max(2, math.ceil(2 * (1.96 + 0.84) ** 2 * variance / difference**2)) if difference else 0


HIGHER, LOWER, NEITHER = "higher", "lower", ""
HOURS, GPU_BUSY, WEIGHTS = "hours", "GPU busy, %", f"{FILES.best}, MB"
_COST = "cost at"
NOT_MEASURED = "not measured (--profile-every)"


@dataclass(frozen=True)
class Figure:
    name: str
    better: str
    value: Callable[[ComparedRun], float]
    digits: int = 3


@dataclass(frozen=True)
class ComparedRow:
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
        *(
            Figure(one.title, one.better, partial(ComparedRun.at_best, name=one.title), 4)
            for one in (*metrics(), *MOTION_METRICS)
        ),
        Figure("best epoch", NEITHER, lambda run: math.nan if run.best is None else float(run.epoch[run.best]), 0),
        Figure("mAP50, last epoch", HIGHER, lambda run: run.last(MAP50), 4),
        Figure("mAP50-95, last epoch", HIGHER, lambda run: run.last(MAP), 4),
        Figure("train loss, last epoch", LOWER, lambda run: run.last("train/total"), 4),
        Figure("val loss, last epoch", LOWER, lambda run: run.last("val/total"), 4),
        Figure("epochs", NEITHER, lambda run: len(run.epoch), 0),
        Figure(HOURS, LOWER, lambda run: run.hours, 3),
        Figure("seconds per epoch", LOWER, lambda run: 3600 * run.hours / len(run.epoch), 2),
        Figure("it/s", HIGHER, lambda run: _or_nan(run.timing.iterations_per_second), 2),
        Figure(SPEED.title, HIGHER, images_per_second, 1),
        Figure(GPU_BUSY, HIGHER, lambda run: 100 * _or_nan(None if run.profile is None else run.profile.gpu_busy), 1),
        Figure("wait for data, %", LOWER, wait_for_data, 1),
        # 0 is that of a run on the CPU
        Figure("GPU memory, GiB", LOWER, lambda run: np.nanmax(run.column("memory"), initial=0) or math.nan, 2),
        Figure(
            WEIGHTS, LOWER, lambda run: next((f.bytes / 1e6 for f in run.weights if f.name == FILES.best), math.nan), 1
        ),
        Figure("mAP50-95 per hour", HIGHER, lambda run: run.per_hour(MAP), 4),
    ]
    if price is not None:
        listed.append(Figure(f"{_COST} {price:g} per hour", LOWER, lambda run: run.hours * price, 2))
    return listed


def summarise(groups: Sequence[Group], price: float | None, not_comparable: dict[str, str]) -> list[ComparedRow]:
    """`not_comparable`: names of rows -> why no one wins there. Rows nobody knows anything of are left out,
    but for how busy the GPU was: that is always of interest, and measured only with `--profile-every`."""
    rows = []
    for figure in figures(price):
        values = tuple(spread_of(figure.value(run) for run in group.runs) for group in groups)
        if all(value is None for value in values):
            if figure.name == GPU_BUSY:
                rows.append(
                    ComparedRow(figure.name, figure.better, values, figure.digits, None, _why_not_measured(groups))
                )
            continue
        reason = not_comparable.get(HOURS if figure.name.startswith(_COST) else figure.name, "")
        winner, remark = (None, reason) if reason else _winner(groups, values, figure)
        rows.append(ComparedRow(figure.name, figure.better, values, figure.digits, winner, remark))
    return rows


def _why_not_measured(groups: Sequence[Group]) -> str:
    runs = [run for group in groups for run in group.runs]
    if all(run.environment.get("gpus") == 0 for run in runs):
        return "no GPU"
    return "not measured (yolofast[gpu] is missing)" if any(run.profile for run in runs) else NOT_MEASURED


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


def images_per_second(run: ComparedRun) -> float:
    """As measured, or from iterations and the batch its settings state."""
    if run.timing.images_per_second is not None:
        return run.timing.images_per_second
    return _or_nan(run.timing.iterations_per_second) * _or_nan(run.batch)


def wait_for_data(run: ComparedRun) -> float:
    """In percent, over the whole run: a long epoch counts for more than a short one."""
    share = run.column(WAIT.name)
    length = np.ones(len(share)) if run.timing.seconds is None else np.diff(run.timing.seconds, prepend=0.0)
    known = np.isfinite(share) & (length > 0)
    return 100 * float(np.average(share[known], weights=length[known])) if known.any() else math.nan


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


@dataclass(frozen=True)
class ComparedClass:
    name: str
    ap: tuple[float | None, ...]
    """AP50-95 of each kind of run."""
    ap50: tuple[float | None, ...]
    ap_std: tuple[float | None, ...]
    """Between the runs of each kind; None where there is one."""
    ap50_std: tuple[float | None, ...]

    @property
    def gain(self) -> float | None:
        """From the first kind to the last, in AP50-95."""
        return None if self.ap[0] is None or self.ap[-1] is None else self.ap[-1] - self.ap[0]

    @property
    def beyond_spread(self) -> bool:
        """The gain is larger than both standard deviations together; never where one is not known. No test: there are
        many classes."""
        first, last = self.ap_std[0], self.ap_std[-1]
        return self.gain is not None and first is not None and last is not None and abs(self.gain) > first + last


def per_class(groups: Sequence[Group]) -> list[ComparedClass]:
    """Largest gain first. Empty unless two kinds of run have scores."""
    if sum(any(run.classes for run in group.runs) for group in groups) < 2:
        return []
    names = dict.fromkeys(name for group in groups for run in group.runs for name in run.classes)
    rows = []
    for name in names:
        scores = [[run.classes[name] for run in group.runs if name in run.classes] for group in groups]
        spreads = [[spread_of(getattr(one, key) for one in listed) for listed in scores] for key in ("ap", "ap50")]
        means = [tuple(None if one is None else one.mean for one in listed) for listed in spreads]
        stds = [tuple(None if one is None or one.n < 2 else one.std for one in listed) for listed in spreads]
        rows.append(ComparedClass(name, *means, *stds))
    return sorted(rows, key=lambda row: -(row.gain if row.gain is not None else -2))
