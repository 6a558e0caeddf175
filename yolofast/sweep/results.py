"""What came out of a sweep: a row for each trial, what each setting does, and who is worth its time."""

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from yolofast.config.train import TrainConfig
from yolofast.extensions import needed
from yolofast.sweep.folder import SweepFolder, TrialProgress
from yolofast.sweep.trials import Trial, command_of, shown
from yolofast.track.sweep.findings import front_of

_MOST_VALUES, _BINS = 6, 4
"""Of a setting with more values, bins of about equal count are shown."""
_T_95 = (math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's t for 95 %, by degrees of freedom; 2 beyond."""


@dataclass(frozen=True)
class TrialRow:
    trial: Trial
    progress: TrialProgress
    epochs_planned: int
    cost: float | None
    is_replaced: bool = False
    """By a copy of a better one, in a population."""

    @property
    def own_hours(self) -> float:
        """Without those of the run it was copied from."""
        return max(self.progress.hours - self.trial.inherited / 3600, 0.0)

    @property
    def state(self) -> str:
        if self.trial.problem:
            return "failed"
        if self.progress.is_complete:
            return "complete"
        if self.is_replaced:
            return f"replaced after {self.progress.epochs}"
        return f"paused after {self.progress.epochs}" if self.progress.epochs else "waits"

    def as_json(self) -> dict[str, Any]:
        progress = self.progress
        return {
            "name": self.trial.name, **self.trial.varied, "best": _or_none(progress.best()),
            "best_epoch": progress.best_epoch, "epochs": progress.epochs, "epochs_planned": self.epochs_planned,
            "hours": round(progress.hours, 5), "cost": self.cost, "state": self.state, "problem": self.trial.problem,
            **({"parent": self.trial.parent, "born": self.trial.born} if self.trial.parent else {}),
        }  # fmt: skip


@dataclass(frozen=True)
class Effect:
    """Of one value of a setting, over the trials that have it."""

    setting: str
    value: str
    number: float | None
    count: int
    mean: float
    half: float
    """Half of the 95 % interval of the mean; infinite with one trial."""
    best: float


@dataclass(frozen=True)
class SweepResults:
    """`rows` are in the order of their worth, the best first."""

    sweep: SweepFolder
    rows: tuple[TrialRow, ...]

    @property
    def best(self) -> TrialRow | None:
        first = next(iter(self._sound), None)
        return first if first is not None and first.progress.epochs else None

    @property
    def _sound(self) -> tuple[TrialRow, ...]:
        """Without those that failed: one may have had other settings than it says."""
        return tuple(row for row in self.rows if not row.trial.problem)

    @property
    def command(self) -> str:
        """What trains the best again, from its beginning."""
        return "" if self.best is None else command_of(self.best.trial)

    def lineage(self, row: TrialRow) -> list[Trial]:
        """The trials that a copy continues, the first one first; alone if it is none."""
        known, line = {one.trial.name: one.trial for one in self.rows}, [row.trial]
        while line[0].parent in known:
            line.insert(0, known[line[0].parent])
        return line

    @property
    def front(self) -> tuple[TrialRow, ...]:
        """Those that nobody beats in both accuracy and time."""
        known = [row for row in self._sound if math.isfinite(row.progress.best_accuracy())]
        if not known:
            return ()
        sign = -1 if known[0].progress.lower_is_better and not known[0].progress.accuracy else 1
        values = np.array([(sign * row.progress.best_accuracy(), -row.progress.hours) for row in known])
        return tuple(known[place] for place in front_of(values))

    def effects(self) -> list[Effect]:
        """Over all other settings. Trials that stopped early count with what they had reached."""
        known = [row for row in self._sound if math.isfinite(row.progress.best())]
        names = dict.fromkeys(name for row in known for name in row.trial.varied)
        found: list[Effect] = []
        for name in names:
            having = [row for row in known if name in row.trial.varied]
            parts = _parts(name, having)
            best = min if having[0].progress.lower_is_better else max
            found += [_effect(name, *part, best) for part in parts] if len(parts) > 1 else []
        return found

    def as_json(self) -> dict[str, Any]:
        effects = [{**vars(one), "half": _or_none(one.half)} for one in self.effects()]
        return {
            "metric": self.sweep.experiment.metric.title,
            "trials": [row.as_json() for row in self.rows],
            "best_command": self.command,
            "pareto": [row.trial.name for row in self.front],
            "effects": effects,
        }

    def to_pandas(self) -> Any:
        """A data frame with a row for each trial."""
        return needed("pandas", "pandas", "a data frame").DataFrame([row.as_json() for row in self.rows])


def results_of(sweep: SweepFolder) -> SweepResults:
    rows, replaced = [], {one.replaces for one in sweep.trials}
    for trial in sweep.trials:
        progress, price = sweep.progress(trial), sweep.experiment.price
        planned = int(trial.settings.get("epochs", TrainConfig.epochs))
        cost = None if price is None else round(price * progress.hours / sweep.per_device, 4)
        rows.append(TrialRow(trial, progress, planned, cost, trial.name in replaced))
    rows.sort(key=lambda row: (bool(row.trial.problem), -row.progress.worth(), row.trial.name))
    return SweepResults(sweep, tuple(rows))


def _parts(name: str, rows: list[TrialRow]) -> list[tuple[str, float | None, list[float]]]:
    """Titles, numbers and the metric of the trials of each value, or bin of values."""
    values = [row.trial.varied[name] for row in rows]
    best = [row.progress.best() for row in rows]
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
    different = sorted(set(values)) if numbers else list({shown(one): one for one in values}.values())
    if not numbers or len(different) <= _MOST_VALUES:
        return [
            (
                shown(one),
                float(one) if numbers else None,
                [y for y, value in zip(best, values, strict=True) if value == one],
            )
            for one in different
        ]
    order = sorted(range(len(values)), key=lambda place: values[place])
    found: list[tuple[str, float | None, list[float]]] = []
    for part in np.array_split(np.array(order), _BINS):
        own = [values[place] for place in part]
        found.append((f"{own[0]:g} – {own[-1]:g}", statistics.fmean(own), [best[place] for place in part]))
    return found


def _effect(
    name: str, title: str, number: float | None, values: list[float], best: Callable[[list[float]], float]
) -> Effect:
    half = math.inf
    if len(values) > 1:
        factor = _T_95[len(values) - 1] if len(values) <= len(_T_95) else 2.0
        half = factor * statistics.stdev(values) / math.sqrt(len(values))
    return Effect(name, title, number, len(values), statistics.fmean(values), half, best(values))


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def differing(rows: Mapping[str, Any]) -> str:
    """What a trial varies, in words."""
    return " ".join(f"{name}={shown(value)}" for name, value in rows.items())
