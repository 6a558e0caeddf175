"""A sweep's folder: the experiment, its trials, and a run folder for each. What runs have done is read from those."""

import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from yolofast.errors import UserError, in_one_line
from yolofast.files.atomic_file import write_whole
from yolofast.files.lock import FolderLock
from yolofast.runs.folder import RunLock
from yolofast.runs.layout import FILES, SWEEP_TRIALS, TIME
from yolofast.runs.reader import RunFolder
from yolofast.sweep.experiment import Experiment, folder_name, read_experiment
from yolofast.sweep.metric import unreached
from yolofast.sweep.trials import Trial

EXPERIMENT, TRIALS, LOGS, TRACKING = "experiment.yaml", SWEEP_TRIALS, "logs", "tracking"
_LOCK = ".sweep.lock"


@dataclass(frozen=True)
class TrialProgress:
    """Of one trial, by the files of its run."""

    values: tuple[float, ...]
    """The metric by epoch; nan where it was not evaluated."""
    hours: float
    is_complete: bool
    lower_is_better: bool = False
    accuracy: tuple[float, ...] = ()
    """By epoch, where the metric asks for the time to it."""
    is_untracked: bool = False
    """Its best weights are still to be tracked, and nothing is known before."""

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
        if math.isnan(value):
            return unreached(self.accuracy[:epochs])
        return -value if self.lower_is_better else value

    @property
    def curve(self) -> tuple[float, ...]:
        """The metric by epoch, or the accuracy whose time is judged."""
        return self.accuracy or self.values

    def best_accuracy(self) -> float:
        """Of all epochs; nan if nothing is known. The metric itself, unless that is a time."""
        known = [value for value in self.accuracy if math.isfinite(value)]
        return (max(known) if known else math.nan) if self.accuracy else self.best()

    @cached_property
    def best_epoch(self) -> int | None:
        """From 1."""
        best = self.best()
        return None if math.isnan(best) else self.values.index(best) + 1


class SweepFolder:
    def __init__(self, path: Path, experiment: Experiment, trials: list[Trial], per_device: int = 1) -> None:
        self.path, self.experiment, self.trials = path, experiment, trials
        self.per_device = per_device
        """Trials at once on each device, which share its hours and its price."""
        self._is_new = False

    @classmethod
    def new(cls, path: Path, experiment: Experiment, trials: list[Trial]) -> "SweepFolder":
        if (path / TRIALS).exists():
            what = "there is a sweep in this folder already"
            raise UserError(what, where=path, fix="resume it: --resume; or --name another")
        path.mkdir(parents=True, exist_ok=True)
        write_whole(path / EXPERIMENT, experiment.text.encode())
        sweep = cls(path, experiment, trials)
        sweep.save()
        sweep._is_new = True
        return sweep

    def withdraw(self) -> None:
        """A new one that could not begin is typed again as it was, without --resume."""
        if self._is_new:
            for name in (EXPERIMENT, TRIALS, _LOCK):
                (self.path / name).unlink(missing_ok=True)
            with suppress(OSError):  # something else is in it
                self.path.rmdir()

    @classmethod
    def open(cls, path: Path) -> "SweepFolder":
        if not (path / TRIALS).is_file():
            raise UserError(
                f"there is no sweep: no {TRIALS}", where=path, fix="start it: yolofast sweep experiment.yaml"
            )
        try:
            content = json.loads((path / TRIALS).read_text(encoding="utf-8"))
            trials, per_device = [Trial(**one) for one in content["trials"]], max(int(content.get("per_device", 1)), 1)
            names = [name for one in trials for name in (one.name, *filter(None, (one.parent, one.replaces)))]
            if any(folder_name(name) != name for name in names):
                raise ValueError("a trial has a name that no sweep gives")  # and that may lead elsewhere
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            fix = "remove it; the runs stay, and the sweep of the same experiment and --name finds them"
            raise UserError(f"cannot be read: {in_one_line(error)}", where=path / TRIALS, fix=fix) from error
        return cls(path, read_experiment(path / EXPERIMENT), trials, per_device)

    def save(self) -> None:
        content = {"per_device": self.per_device, "trials": [one.as_json() for one in self.trials]}
        write_whole(self.path / TRIALS, (json.dumps(content, indent=1) + "\n").encode())

    def lock(self) -> FolderLock:
        return FolderLock(_LOCK)

    def run(self, trial: Trial) -> Path:
        return self.path / trial.name

    def log(self, trial: Trial) -> Path:
        return self.path / LOGS / f"{trial.name}.txt"

    def progress(self, trial: Trial) -> TrialProgress:
        folder, metric = self.run(trial), self.experiment.metric
        lower = metric.lower_is_better
        if not (folder / FILES.results).is_file():
            return TrialProgress((), trial.seconds / 3600, False, lower)
        run = RunFolder(folder)
        known = run.results
        is_complete = bool(run.summary) and not (folder / FILES.interrupted).exists()
        seconds = max(trial.seconds, float(known.numbers(TIME.name)[-1]) if len(known) else 0.0)
        accuracy = metric.accuracy(run) if metric.target is not None else ()
        return TrialProgress(
            metric.values(run, self.per_device),
            seconds / 3600,
            is_complete,
            lower,
            accuracy,
            is_untracked=metric.is_untracked(run),
        )

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

    def last_words(self, trial: Trial) -> str:
        try:
            text = self.log(trial).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return " / ".join([line.strip() for line in text.splitlines() if line.strip()][-4:])[-500:]


Say = Callable[[str], None]


def latest_sweep(project: Path) -> Path:
    found: list[Any] = sorted(project.glob(f"*/{TRIALS}"), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        raise UserError("there is no sweep to resume", where=project, fix="name its experiment: yolofast sweep FILE")
    parent: Path = found[-1].parent
    return parent
