"""How a trial is judged: by a column of `results.csv`, by how soon it is accurate enough, or by how well it tracks.

`metric: {hours_to: 0.3}` asks how long a trial takes to an mAP of 0.3, and `money_to` what that costs. One that never
gets there is worse than all that do, and the better the nearer it came. `metric: idf1` tracks the best weights of each
trial with `tracksweep`, which stores their detections, and reads its scores.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.config.flags import from_settings
from yolofast.config.sequences import TracksweepConfig
from yolofast.errors import UserError, nearest, shorten
from yolofast.runs.layout import COLUMNS, FILES, MAP, MAP50, PRECISION, RECALL, TIME
from yolofast.runs.reader import RunFolder
from yolofast.runs.tracking import SCORES

METRICS = {"map": MAP.name, "map50": MAP50.name, "precision": PRECISION.name, "recall": RECALL.name}
"""Short names of columns."""
TRACKED = {name.lower(): name for name in SCORES}
FITNESS = "fitness"
"""0.1 mAP50 + 0.9 mAP: what YOLOv7 calls best, and its `--evolve` goes by."""
_REACHED = ("hours_to", "money_to")
_NEVER = 1e6
"""Hours that stand for never."""
_FIX = (
    "map, map50, fitness, precision, recall, another column of results.csv, {hours_to: 0.3} or {money_to: 0.3}, or "
    "idf1, hota or mota"
)


@dataclass(frozen=True, kw_only=True)
class Metric:
    title: str
    column: str
    """Of `results.csv`."""
    target: float | None = None
    """What the column has to reach; then hours are judged, …"""
    price: float | None = None
    """… times the price of one, if money is asked for."""
    score: str = ""
    """Of `tracking.json`, in place of the column."""
    track: Mapping[str, Any] = field(default_factory=dict)
    """Flags of `tracksweep`: what is tracked, and how."""

    @property
    def lower_is_better(self) -> bool:
        return self.target is not None or "loss" in self.column

    @property
    def accuracy_title(self) -> str:
        """Of what is drawn over time."""
        return self.title if self.target is None else "map"

    def values(self, run: RunFolder, per_device: int = 1) -> tuple[float, ...]:
        """By epoch; nan where nothing is known. So many trials share a device, and its price."""
        column = self.accuracy(run)
        if self.score:
            known = _tracked(run)
            return tuple(known.get(epoch, {}).get(self.score, math.nan) for epoch in range(1, len(column) + 1))
        if self.target is None:
            return column
        first = next((epoch for epoch, value in enumerate(column) if value >= self.target), len(column))
        hours = run.results.numbers(TIME.name) / 3600 * (1.0 if self.price is None else self.price / per_device)
        return tuple(float(hours[first]) if epoch >= first else math.nan for epoch in range(len(column)))

    def accuracy(self, run: RunFolder) -> tuple[float, ...]:
        """The column by epoch."""
        if self.column == FITNESS:
            return tuple(float(value) for value in run.fitness())
        if self.column not in run.results:
            names = ", ".join((*METRICS, *run.results.text))
            raise UserError(f"metric is {self.title}, which {FILES.results} does not have", fix=f"use one of {names}")
        return tuple(float(value) for value in np.asarray(run.results.numbers(self.column)))

    def is_untracked(self, run: RunFolder) -> bool:
        """Whether the best weights are still to be tracked."""
        best = run.best_row() if self.score else None
        return best is not None and int(run.epochs()[best]) not in _tracked(run)

    def tracking_words(self, run: Path, output: Path, device: str) -> list[str]:
        """Of the command line that tracks the best weights of a run."""
        entries = {"by": self.score, "device": device, "output": str(output), **self.track}
        words = ["tracksweep", "--weights", str(run / FILES.weights / FILES.best)]
        for name, value in entries.items():
            words += [f"--{name.replace('_', '-')}", *(map(str, value) if isinstance(value, list) else [str(value)])]
        return words


def unreached(accuracy: Sequence[float]) -> float:
    """The worth of a trial that has not reached its target: less than of any that has; more is better."""
    known = [value for value in accuracy if math.isfinite(value)]
    return max(known) - _NEVER if known else -math.inf


def read_metric(given: Any, track: Mapping[str, Any], price: float | None) -> Metric:
    """Of `metric: map`, `metric: {hours_to: 0.3}` or `metric: idf1`."""
    if isinstance(given, dict):
        return _reached(given, track, price)
    if str(given).lower() in TRACKED:
        score = TRACKED[str(given).lower()]
        if not track or track.keys() & {"weights", "output", "by"}:
            fix = "track: {data: sequences.yaml}, or other flags of tracksweep"
            what = f"metric is {score}, but track does not say what is tracked, or names what the sweep sets"
            raise UserError(what, fix=fix)
        from_settings(TracksweepConfig, {**track, "weights": [FILES.best], "by": score})  # before a run
        return Metric(title=score, column=MAP.name, score=score, track=track)
    _refuse(track)
    if given not in (*METRICS, FITNESS) and not _is_column(str(given)):
        what = f"metric is {shorten(given)}{nearest(str(given), (*METRICS, FITNESS, *TRACKED, *_REACHED))}"
        raise UserError(what, fix=f"use {_FIX}")
    return Metric(title=str(given), column=METRICS.get(given, str(given)))


def _reached(given: Mapping[Any, Any], track: Mapping[str, Any], price: float | None) -> Metric:
    _refuse(track)
    kind, target = next(iter(given.items()), ("", None))
    if len(given) != 1 or kind not in _REACHED or not isinstance(target, float) or not 0 < target < 1:
        raise UserError(f"metric is {shorten(given)}{nearest(str(kind), _REACHED)}", fix=f"use {_FIX}")
    if kind == "money_to" and price is None:
        raise UserError("metric.money_to needs the price of an hour", fix="add price: 2.5")
    title = f"{kind.partition('_')[0]} to map {target:g}"
    return Metric(title=title, column=MAP.name, target=target, price=price if kind == "money_to" else None)


def _refuse(track: Mapping[str, Any]) -> None:
    if track:
        raise UserError("track is given, but metric is another", fix="metric: idf1, hota or mota")


def _is_column(name: str) -> bool:
    """Of `results.csv`; terms of the loss are those of the family, which a run knows."""
    return any(name == one.name or one.term_in(name) is not None for one in COLUMNS)


def _tracked(run: RunFolder) -> dict[int, Mapping[str, float]]:
    """Scores by epoch, from 1."""
    return {} if run.tracking is None else {one.epoch: one.scores for one in run.tracking.epochs}
