"""A sweep's folder: the experiment, its trials, and a run folder for each. What runs have done is read from those."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.errors import UserError, in_one_line
from yolofast.files.atomic_file import write_whole
from yolofast.files.lock import FolderLock
from yolofast.runs.folder import RunLock
from yolofast.runs.layout import FILES, SWEEP_TRIALS, TIME
from yolofast.runs.reader import RunFolder
from yolofast.sweep.experiment import METRICS, Experiment, folder_name, read_experiment
from yolofast.sweep.trials import Trial

EXPERIMENT, TRIALS, LOGS = "experiment.yaml", SWEEP_TRIALS, "logs"
_LOCK = ".sweep.lock"


@dataclass(frozen=True)
class Progress:
    """Of one trial, by the files of its run."""

    values: tuple[float, ...]
    """The metric by epoch; nan where it was not evaluated."""
    hours: float
    is_complete: bool
    lower_is_better: bool = False

    @property
    def epochs(self) -> int:
        return len(self.values)

    def best(self, epochs: int | None = None) -> float:
        """Within the first so many epochs; nan if nothing is known."""
        known = [value for value in self.values[:epochs] if math.isfinite(value)]
        return math.nan if not known else min(known) if self.lower_is_better else max(known)

    def worth(self, epochs: int | None = None) -> float:
        """More is better; what is unknown is worst."""
        value = self.best(epochs)
        return -math.inf if math.isnan(value) else -value if self.lower_is_better else value

    @cached_property
    def best_epoch(self) -> int | None:
        """From 1."""
        best = self.best()
        return None if math.isnan(best) else self.values.index(best) + 1


class SweepFolder:
    def __init__(self, path: Path, experiment: Experiment, trials: list[Trial]) -> None:
        self.path, self.experiment, self.trials = path, experiment, trials

    @classmethod
    def new(cls, path: Path, experiment: Experiment, trials: list[Trial]) -> "SweepFolder":
        if (path / TRIALS).exists():
            what = "there is a sweep in this folder already"
            raise UserError(what, where=path, fix="resume it: --resume; or --name another")
        path.mkdir(parents=True, exist_ok=True)
        write_whole(path / EXPERIMENT, experiment.text.encode())
        sweep = cls(path, experiment, trials)
        sweep.save()
        return sweep

    @classmethod
    def open(cls, path: Path) -> "SweepFolder":
        if not (path / TRIALS).is_file():
            raise UserError(
                f"there is no sweep: no {TRIALS}", where=path, fix="start it: yolofast sweep experiment.yaml"
            )
        try:
            content = json.loads((path / TRIALS).read_text(encoding="utf-8"))
            trials = [Trial(**one) for one in content["trials"]]
            names = [name for one in trials for name in (one.name, *filter(None, (one.parent, one.replaces)))]
            if any(folder_name(name) != name for name in names):
                raise ValueError("a trial has a name that no sweep gives")  # and that may lead elsewhere
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            fix = "remove it; the runs stay, and the sweep of the same experiment and --name finds them"
            raise UserError(f"cannot be read: {in_one_line(error)}", where=path / TRIALS, fix=fix) from error
        return cls(path, read_experiment(path / EXPERIMENT), trials)

    def save(self) -> None:
        content = {"trials": [one.as_json() for one in self.trials]}
        write_whole(self.path / TRIALS, (json.dumps(content, indent=1) + "\n").encode())

    def lock(self) -> FolderLock:
        return FolderLock(_LOCK)

    def run(self, trial: Trial) -> Path:
        return self.path / trial.name

    def log(self, trial: Trial) -> Path:
        return self.path / LOGS / f"{trial.name}.txt"

    def progress(self, trial: Trial) -> Progress:
        folder, metric = self.run(trial), self.experiment.metric
        column = METRICS.get(metric, metric)
        lower = "loss" in column
        if not (folder / FILES.results).is_file():
            return Progress((), trial.seconds / 3600, False, lower)
        run = RunFolder(folder)
        known = run.results
        if column not in known:
            names = ", ".join((*METRICS, *known.text))
            raise UserError(f"metric is {metric}, which {FILES.results} does not have", fix=f"use one of {names}")
        is_complete = bool(run.summary) and not (folder / FILES.interrupted).exists()
        values = tuple(float(value) for value in np.asarray(known.numbers(column)))
        seconds = max(trial.seconds, float(known.numbers(TIME.name)[-1]) if len(known) else 0.0)
        return Progress(values, seconds / 3600, is_complete, lower)

    def is_locked(self, trial: Trial) -> bool:
        """Whether some process trains it: one that a killed sweep has left, which continues to its next pause."""
        folder = self.run(trial)
        if not folder.is_dir():
            return False
        try:
            with RunLock() as lock:
                lock.take(folder)
        except UserError:
            return True
        return False

    def last_words(self, trial: Trial, lines: int = 4) -> str:
        try:
            text = self.log(trial).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return " / ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:])[-500:]


Say = Callable[[str], None]


def latest_sweep(project: Path) -> Path:
    found: list[Any] = sorted(project.glob(f"*/{TRIALS}"), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        raise UserError("there is no sweep to resume", where=project, fix="name its experiment: yolofast sweep FILE")
    parent: Path = found[-1].parent
    return parent
