"""A run folder as numbers, whoever wrote it. Epochs count from 1; nan and None are what its files do not say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.files.known_numbers import known_number
from yolofast.report.logs.history import Floats, Ints
from yolofast.report.logs.read_csv import fitness_of
from yolofast.runs import layout
from yolofast.runs.divergence import lost_epochs
from yolofast.runs.layout import best_place, motion_fitness
from yolofast.runs.reader import ClassScore, StepProfile
from yolofast.runs.settings import settings_in_effect
from yolofast.runs.tracking import Agreement

MOTION = tuple(one.title for one in layout.MOTION_METRICS)
MAP50, MAP, PRECISION, RECALL = (one.title for one in (layout.MAP50, layout.MAP, layout.PRECISION, layout.RECALL))
"""Columns go by the titles people know them by."""
OURS, YOLOV7, ULTRALYTICS, YOLOX, OTHER = "yolofast", "YOLOv7", "Ultralytics", "YOLOX", "CSV"


@dataclass(frozen=True, kw_only=True)
class RunHours:
    """`seconds[i]`: from the start to the end of epoch i, of everything that is paid for."""

    seconds: Floats | None = None
    total: float | None = None
    source: str = ""
    """Where the hours come from, in words."""
    evenly: bool = False
    """Only the whole was known; its epochs are taken to have been equally long."""
    iterations: int | None = None
    """Of an epoch."""
    iterations_per_second: float | None = None
    images_per_second: float | None = None
    images: int | None = None
    """Of an epoch, as the run counted them."""


@dataclass(frozen=True, kw_only=True)
class WeightsFile:
    """A checkpoint by what it holds: entry -> bytes of its tensors; nothing where it was not looked into."""

    name: str
    bytes: int
    entries: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""

    @property
    def stripped(self) -> bool:
        """Weights once and nothing to continue training with."""
        return not self.problem and not self.has_more_than_weights

    @property
    def has_more_than_weights(self) -> bool:
        return len(self.entries) > 1

    @property
    def contents(self) -> str:
        return ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in self.entries.items())


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    name: str
    folder: Path
    format: str
    epoch: Ints
    columns: Mapping[str, Floats]
    """One value per epoch: `train/box` … `val/total`, the accuracies, `lr`, `memory` in GiB, `data_wait` as a share."""
    args: Mapping[str, Any] = field(default_factory=dict)
    hyp: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    timing: RunHours = RunHours()
    summary: Mapping[str, Any] = field(default_factory=dict)
    classes: Mapping[str, ClassScore] = field(default_factory=dict)
    classes_epoch: int | None = None
    """Which epoch they are of, where their file says it."""
    validated: tuple[int | None, int | None] = (None, None)
    """Images and boxes of the validation set."""
    profile: StepProfile | None = None
    tracking: Agreement | None = None
    """Its tracked epochs beside their mAP."""
    weights: tuple[WeightsFile, ...] = ()
    assigners: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """What could not be read of it."""

    @property
    def settings(self) -> dict[str, Any]:
        """As they took effect, whichever file says them."""
        return settings_in_effect(self.hyp, self.args)

    def column(self, name: str) -> Floats:
        return self.columns.get(name, np.full(len(self.epoch), np.nan))

    @property
    def fitness(self) -> Floats:
        if MOTION[0] in self.columns:
            return motion_fitness([self.column(name) for name in MOTION])
        both = self.columns.get(MAP), self.columns.get(MAP50)
        return fitness_of(both[0], both[1], len(self.epoch))

    @property
    def lost(self) -> str:
        """Why the weights of its best epoch are of no use; empty where nothing says so."""
        why = lost_epochs(self.column("train/total"), self.column("val/total"), len(self.epoch))
        return "" if self.best is None else why[self.best]

    @property
    def best(self) -> int | None:
        """The place of the epoch that `best.pt` is of; None if nothing was evaluated."""
        return best_place(self.fitness)

    def at_best(self, name: str) -> float:
        return float("nan") if self.best is None else float(self.column(name)[self.best])

    def last(self, name: str) -> float:
        """The last value that is known."""
        values = self.column(name)
        known = values[np.isfinite(values)]
        return float(known[-1]) if len(known) else float("nan")

    @property
    def unfinished(self) -> bool:
        """Short of its plan, and neither stopped for getting no better nor meant to end at a step."""
        planned, patience = self.number("epochs"), self.number("patience")
        if planned is None or self.number("max_steps") or self.epoch[-1] >= planned:
            return False
        return not (patience and self.best is not None and self.epoch[-1] - self.epoch[self.best] >= patience)

    def best_so_far(self, name: str) -> Floats:
        """At the end of each epoch, of the weights one would take then; nan before the first evaluation."""
        good = np.where(np.isfinite(self.fitness), self.fitness, -np.inf)
        raised = np.maximum.accumulate(good)
        first = np.searchsorted(raised, raised)
        return np.where(np.isfinite(raised), self.column(name)[first], np.nan)

    @property
    def hours(self) -> float:
        return float("nan") if self.timing.total is None else self.timing.total / 3600

    def per_hour(self, name: str) -> float:
        return self.at_best(name) / self.hours if self.hours else float("nan")

    def number(self, key: str) -> float | None:
        """A setting that is a number."""
        return known_number(self.settings.get(key))

    @property
    def batch(self) -> float | None:
        """Images of a batch; what is below one is none."""
        return as_batch(self.settings.get("batch_size"))


def as_batch(value: object) -> float | None:
    number = known_number(value)
    return number if number is not None and number >= 1 else None
