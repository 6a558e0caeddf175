"""`yolofast sweep --dry-run`: the trials, what differs, and what they cost; nothing is trained."""

import subprocess
from collections.abc import Callable, Iterator, Mapping

from yolofast.config.reports import SweepConfig
from yolofast.config.train import TrainConfig
from yolofast.sweep.experiment import Experiment, read_experiment
from yolofast.sweep.folder import SweepFolder
from yolofast.sweep.measure import TrialPace, paces_of
from yolofast.sweep.places import Start, slots_of
from yolofast.sweep.results import differing, results_of
from yolofast.sweep.session import open_sweep
from yolofast.sweep.trials import Trial, look_at_files, planned
from yolofast.words import counted, duration


def dry_run(config: SweepConfig, say: Callable[[str], None] = print, start: Start = subprocess.Popen) -> Iterator[str]:
    """Lines of text. How long trials take is known if some have run, or with `--measure`."""
    opened = open_sweep(config) if config.resume else None
    if opened is not None:
        experiment, trials = opened.experiment, opened.trials
    else:
        experiment = read_experiment(str(config.experiment), config.values)
        trials = planned(experiment)
        look_at_files(trials)
    paces = paces_of(trials, slots_of(config.device, 1)[0].device, start, say) if config.measure else {}
    yield from _trial_lines(trials, paces)
    if paces:
        yield _measured(experiment, trials, paces)
    elif opened is not None:
        yield _by_trials(opened)
    else:
        yield "time: unknown; --measure profiles some steps of each kind of trial"
    yield from _rules(experiment)


def _trial_lines(trials: list[Trial], paces: Mapping[str, TrialPace]) -> Iterator[str]:
    yield f"{counted(len(trials), 'trial')}:"
    width = max(len(trial.name) for trial in trials)
    for trial in trials:
        time = f"  {duration(_seconds(trial, paces[trial.name]))}" if paces else ""
        yield f"  {trial.name:<{width}}{time}  {differing(trial.varied) or 'the base settings'}"


def _seconds(trial: Trial, pace: TrialPace) -> float:
    return pace.epoch_seconds * _epochs(trial)


def _epochs(trial: Trial) -> int:
    return int(trial.settings.get("epochs", TrainConfig.epochs))


def _measured(experiment: Experiment, trials: list[Trial], paces: Mapping[str, TrialPace]) -> str:
    each = [_seconds(trial, paces[trial.name]) for trial in trials]
    seconds = sum(each) * (experiment.trials / len(trials) if experiment.grows else 1)
    most = "at most " if experiment.stopping is not None else ""
    return (
        f"time: {most}{duration(seconds)} on one device{_money(experiment, seconds)}, by profiles of "
        f"{counted(len(set(paces.values())), 'kind')} of trials: training alone, without evaluation and starts"
    )


def _money(experiment: Experiment, seconds: float) -> str:
    return "" if experiment.price is None else f", {experiment.price * seconds / 3600:.2f} of money"


def _by_trials(opened: SweepFolder) -> str:
    """By the time an epoch took in trials that have run: an upper limit where some are stopped early."""
    rows = results_of(opened).rows
    done = [row for row in rows if row.progress.epochs]
    epochs = sum(row.progress.epochs for row in done)
    if not epochs:
        return "time: unknown before a trial has run; --measure profiles some steps of each kind of trial"
    per_epoch = 3600 * sum(row.progress.hours for row in done) / epochs
    left = sum(row.epochs_planned - row.progress.epochs for row in rows if row.state not in ("complete", "failed"))
    seconds = per_epoch * left / opened.per_device
    cost = _money(opened.experiment, seconds)
    return f"time: at most {duration(seconds)} on one device{cost}: {left} epochs of {duration(per_epoch)}, as so far"


def _rules(experiment: Experiment) -> Iterator[str]:
    yield f"base: {differing(experiment.base) or 'the defaults of train'}"
    yield f"metric: {experiment.metric.title}"
    if experiment.stopping is not None:
        rungs = ", ".join(map(str, experiment.stopping.rungs)) or "none"
        what = "the better ones are continued" if experiment.method != "pbt" else "the worst become copies of the best"
        yield f"stop: {experiment.stopping.kind}, runs pause after epochs {rungs}; {what}"
    if experiment.method == "evolve":
        yield f"evolve: up to {counted(experiment.trials, 'generation')}, each from the fittest before"
    if experiment.method == "tpe":
        yield f"tpe: up to {counted(experiment.trials, 'trial')}, each where those before make it promising"
    if experiment.hours is not None:
        yield f"budget: {duration(3600 * experiment.hours)} of one device"
