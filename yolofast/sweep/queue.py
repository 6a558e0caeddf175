"""The queue: trials on the GPUs of this machine, or its cores, each a process of `yolofast train`.

What is next follows from the run folders alone. So a sweep that was killed continues where it was, and a trial whose
process was killed is resumed, which ends in the same weights.
"""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from yolofast.exit_codes import EXIT_BAD_INPUT, EXIT_OK, EXIT_PAUSED
from yolofast.sweep.folder import TRACKING, Say, SweepFolder, TrialProgress
from yolofast.sweep.places import LOST, Process, Slot, Start
from yolofast.sweep.population import alive, is_renewed, renewed
from yolofast.sweep.tpe import Known
from yolofast.sweep.trials import Trial, next_generation, suggested_trial, without_effect, words_of
from yolofast.words import counted, duration

_POLL_S = 0.1
_MOST_RESTARTS, _MOST_LOSSES = 2, 10
"""Of a trial that ends without having got further: by itself, or with its machine, which is no fault of its."""


class _Job(NamedTuple):
    trial: Trial
    until: int | None = None
    """The epoch where it pauses."""
    tracks: bool = False
    """Its best weights are tracked; nothing is trained."""


@dataclass
class _Running:
    job: _Job
    process: Process
    epochs: int
    began: float = field(default_factory=time.monotonic)

    @property
    def trial(self) -> Trial:
        return self.job.trial


class Queue:
    def __init__(self, sweep: SweepFolder, slots: Sequence[Slot], say: Say, start: Start) -> None:
        self._sweep, self._slots, self._say, self._start = sweep, slots, say, start
        self._running: dict[Slot, _Running] = {}
        self._progress: dict[str, TrialProgress] = {}
        self.why_over = ""
        """Empty if all was done."""

    def run(self, ended: Callable[[], object] = lambda: None) -> None:
        """`ended` is called after each process. An interrupt stops them all, resumably."""
        for trial in self._sweep.trials:
            trial.problem = ""  # a resumed sweep tries again
        try:
            while True:
                for slot, one in list(self._running.items()):
                    if one.process.poll() is not None:
                        del self._running[slot]
                        self._end(one)
                        ended()
                waits = self._fill()
                if not self._running and not waits:
                    return
                time.sleep(_POLL_S)
        finally:
            self._stop_all()

    def _fill(self) -> bool:
        """Starts what there is room for; whether something is left that another process trains."""
        busy = {one.trial.name for one in self._running.values()}
        elsewhere: set[str] = set()
        for slot in self._slots:
            while slot not in self._running:
                job = self._next(busy | elsewhere)
                if job is None:
                    break
                name = job.trial.name
                if self._sweep.is_locked(job.trial):
                    elsewhere.add(name)
                    self._progress.pop(name, None)
                    continue
                self._running[slot] = self._begin(job, slot)
                busy.add(name)
        return bool(elsewhere)

    def progress(self, trial: Trial) -> TrialProgress:
        """Read again after each process of the trial. One that is complete may have ended unseen, or failed before."""
        if trial.name not in self._progress:
            self._progress[trial.name] = self._sweep.progress(trial)
            if self._progress[trial.name].is_complete and not trial.problem:
                self._check_settings(trial)
        return self._progress[trial.name]

    def _check_settings(self, trial: Trial) -> None:
        if wrong := without_effect(trial, self._sweep.run(trial)):
            trial.problem = f"its settings did not take effect: {'; '.join(wrong)}"
            self._sweep.save()

    def _next(self, busy: set[str]) -> _Job | None:
        """Those that have come further go first."""
        if self._is_spent():
            return None
        stopping, experiment = self._sweep.experiment.stopping, self._sweep.experiment
        trials = alive(self._sweep.trials) if experiment.method == "pbt" else self._sweep.trials
        free = [one for one in trials if one.name not in busy and not one.problem]
        rungs = () if stopping is None else stopping.rungs
        for one in free:
            progress = self.progress(one)
            if progress.is_untracked and (progress.is_complete or progress.epochs in rungs):
                return _Job(one, tracks=True)
        free = [one for one in free if not self.progress(one).is_complete]
        at = {one.name: self.progress(one).epochs for one in free}
        begun = [one for one in free if at[one.name] not in (0, *rungs)]
        if begun:
            return _Job(begun[0], None if stopping is None else stopping.next(at[begun[0].name]))
        new = next((one for one in free if at[one.name] == 0), None)
        if experiment.method == "pbt" and new is None:
            return self._next_of_population(free)
        grows = experiment.grows and len(self._sweep.trials) < experiment.trials
        # Where no other will come at least one continues, at the lowest rung first: the best above may come from it.
        passes = [(reversed(rungs), False)] + [(iter(rungs), True)] * (new is None and not grows and not busy)
        for order, all_there in passes:
            for rung in order:
                promoted = self._promoted(rung, all_there=all_there)
                here = [one for one in free if at[one.name] == rung and one.name in promoted]
                if here and stopping is not None:
                    return _Job(max(here, key=lambda one: self.progress(one).worth(rung)), stopping.next(rung))
        if new is None and grows:
            new = self._grown(busy)
        return None if new is None else _Job(new, None if stopping is None else stopping.next(0))

    def _next_of_population(self, free: list[Trial]) -> _Job | None:
        """All pause at a rung; when the last has come the worst are replaced, and all continue."""
        sweep, stopping = self._sweep, self._sweep.experiment.stopping
        for rung in () if stopping is None else stopping.rungs:
            here = [one for one in free if self.progress(one).epochs == rung]
            if here and not is_renewed(sweep.trials, rung):
                known = [self.progress(one) for one in alive(sweep.trials)]
                if any(one.epochs < rung or one.is_untracked for one in known):
                    continue  # some are on their way
                copies = renewed(sweep, rung, self.progress)
                sweep.trials += copies
                sweep.save()
                for one in copies:
                    self._say(f"{one.name}: continues from {one.parent}, in place of {one.replaces}")
                here = [one for one in alive(sweep.trials) if self.progress(one).epochs == rung]
            if here and stopping is not None:
                return _Job(here[0], stopping.next(rung))
        return None

    def _promoted(self, rung: int, *, all_there: bool) -> set[str]:
        stopping = self._sweep.experiment.stopping
        reached = {one.name: self.progress(one) for one in self._sweep.trials if not one.problem}
        known = {name: one for name, one in reached.items() if one.epochs >= rung and not one.is_untracked}
        worth = {name: one.worth(rung) for name, one in known.items()}
        return set() if stopping is None else stopping.promoted(worth, all_there=all_there)

    def _grown(self, busy: set[str]) -> Trial | None:
        """A trial that follows from the others; None if nothing does. The first generation has to end first."""
        sweep, number = self._sweep, len(self._sweep.trials)
        ended = [(one, self.progress(one)) for one in sweep.trials if one.name not in busy and not one.problem]
        ended = [(one, has) for one, has in ended if has.epochs and has.worth() > -math.inf]
        if sweep.experiment.method == "tpe":
            known: list[Known] = [(one.varied, has.worth(), has.epochs, has.is_complete) for one, has in ended]
            known += [(one.varied, None, 0, False) for one in sweep.trials if one.name in busy]
            listed = {one.name for one, _ in ended} | busy
            known += [(one.varied, -math.inf, 0, False) for one in sweep.trials if one.name not in listed]
            trial = suggested_trial(sweep.experiment, known, number)
        else:
            done = [(one, has.worth()) for one, has in ended]
            trial = next_generation(sweep.experiment, done, number) if done else None
        self.why_over = "constraints, and what was tried, leave no further trial" if trial is None and ended else ""
        if trial is None:
            return None
        sweep.trials.append(trial)
        sweep.save()
        return trial

    def _begin(self, job: _Job, slot: Slot) -> _Running:
        sweep, trial = self._sweep, job.trial
        progress = self.progress(trial)
        what = f"continues after epoch {progress.epochs}" if progress.epochs else "starts"
        what = "its best weights are tracked" if job.tracks else what
        self._say(f"{trial.name}: {what}{f', until epoch {job.until}' if job.until else ''}, on {slot.device}")
        sweep.log(trial).parent.mkdir(exist_ok=True)
        with sweep.log(trial).open("ab") as log:
            process = self._start(
                [sys.executable, "-m", "yolofast", *self._words(job, slot)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=self._environment(slot),
                start_new_session=True,
            )  # fmt: skip
        return _Running(job, process, progress.epochs)

    def _words(self, job: _Job, slot: Slot) -> list[str]:
        sweep, trial = self._sweep, job.trial
        if job.tracks:
            metric = sweep.experiment.metric
            return metric.tracking_words(sweep.run(trial), sweep.path / TRACKING / trial.name, slot.device)
        words = ["train", "--project", str(sweep.path), "--name", trial.name, "--resume", "auto"]
        words += ["--device", slot.device]
        words += [] if job.until is None else ["--until-epoch", str(job.until)]
        left = self._seconds_left()
        devices = len(self._slots) / sweep.per_device
        words += [] if left is None else ["--time-limit", f"{max(left / devices, 1):.0f}s"]
        return [*words, *words_of(trial.settings)]

    def _environment(self, slot: Slot) -> Mapping[str, str]:
        """Trials side by side share the cores: threads that fight over them wait for one another."""
        threads = max(1, (os.cpu_count() or 1) // len(self._slots))
        return {"OMP_NUM_THREADS": str(threads), **os.environ} if slot.is_cpu else dict(os.environ)

    def _end(self, one: _Running) -> None:
        sweep, trial, code = self._sweep, one.trial, one.process.returncode
        trial.seconds += time.monotonic() - one.began
        self._progress.pop(trial.name, None)
        progress = self.progress(trial)
        if code in (EXIT_OK, EXIT_PAUSED):
            self._check_settings(trial)
            if not trial.problem and one.job.tracks and progress.is_untracked:
                trial.problem = f"it was not tracked: {sweep.last_words(trial)}"
        elif progress.epochs > one.epochs:
            trial.restarts = 0
        else:
            trial.restarts += 1
            if code == EXIT_BAD_INPUT or trial.restarts > (_MOST_LOSSES if code == LOST else _MOST_RESTARTS):
                trial.problem = f"exit code {code}: {sweep.last_words(trial)}"
        best, metric = progress.best(), sweep.experiment.metric
        known = "not known" if metric.target is None else "not reached"
        known = known if math.isnan(best) else f"{best:.4g}"
        value = "to be tracked" if progress.is_untracked else f"{metric.title} {known}"
        value = value if progress.epochs else "no epoch"
        ended = "its machine was lost" if code == LOST else f"ended with exit code {code}"
        state = trial.problem or (value if code in (EXIT_OK, EXIT_PAUSED) else f"{ended}, is resumed")
        self._say(f"{trial.name}: {counted(progress.epochs, 'epoch')}, {duration(trial.seconds)}, {state}")
        sweep.save()

    def _seconds_left(self) -> float | None:
        """Of the budget, on one device: an hour of it is shared by the trials that it trains at once."""
        hours = self._sweep.experiment.hours
        if hours is None:
            return None
        spent = sum(one.seconds for one in self._sweep.trials)
        spent += sum(time.monotonic() - one.began for one in self._running.values())
        return 3600 * hours - spent / self._sweep.per_device

    def _is_spent(self) -> bool:
        left = self._seconds_left()
        if left is not None and left < 1:
            self.why_over = "the budget is spent: raise it in experiment.yaml of the sweep's folder, and --resume"
            return True
        return False

    def _stop_all(self) -> None:
        """As Ctrl+C would: each keeps its last state and its report."""
        for one in self._running.values():
            one.process.send_signal(signal.SIGTERM)
        for one in self._running.values():
            one.process.wait()
            one.trial.seconds += time.monotonic() - one.began
        if self._running:
            self._sweep.save()
        self._running.clear()
