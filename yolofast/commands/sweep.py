"""`yolofast sweep`: many runs from one file, on all GPUs of this machine, and what they say together."""

import argparse
import math
import sys
from collections.abc import Mapping
from typing import Any

from yolofast.config.flags import from_args
from yolofast.config.reports import SweepConfig
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.extensions import found as imported
from yolofast.interrupts import INTERRUPTED, exit_code
from yolofast.sweep.dry_run import dry_run
from yolofast.sweep.experiment import Experiment, read_experiment
from yolofast.sweep.folder import Say, SweepFolder
from yolofast.sweep.results import SweepResults, differing
from yolofast.sweep.session import PAGE, evolve, open_sweep, run_sweep
from yolofast.sweep.trials import shown
from yolofast.terminal.console import console, table
from yolofast.words import duration, own_command

_LISTED = 20
_SOME_FAILED = 1


def run(args: argparse.Namespace) -> int | None:
    config = from_args(SweepConfig, args)
    if config.experiment is not None and not config.resume:
        experiment = read_experiment(config.experiment, config.values)
        if experiment.command == "tracksweep":
            return _tracksweep(experiment, config)
    if config.dry_run:
        for line in dry_run(config):
            print(line)
        return None
    opened = open_sweep(config)
    try:
        found = run_sweep(opened, config, _say)
        print_results(found)
    except KeyboardInterrupt:
        print(f"{INTERRUPTED}; every trial is kept: {_resume(opened)}", file=sys.stderr)
        return exit_code()
    return _SOME_FAILED if any(row.trial.problem for row in found.rows) else None


def evolve_training(config: TrainConfig, given: dict[str, Any], say: Say) -> None:
    """`yolofast train --evolve`."""
    print_results(evolve(config, given, say))


def _say(line: str) -> None:
    print(line, flush=True)


def _resume(opened: SweepFolder) -> str:
    return f"{own_command()} sweep {opened.path} --resume"


def print_results(found: SweepResults) -> None:
    metric, out = found.sweep.experiment.metric.title, console()
    listing = table("trial", f">{metric}", ">epoch", ">epochs", ">time", "state")
    for row in found.rows[:_LISTED]:
        best = row.progress.best()
        listing.add_row(
            row.trial.name, "" if math.isnan(best) else f"{best:.4f}", str(row.progress.best_epoch or ""),
            f"{row.progress.epochs}/{row.epochs_planned}", duration(3600 * row.progress.hours), row.state,
        )  # fmt: skip
    out.print(listing)
    if len(found.rows) > _LISTED:
        print(f"and {len(found.rows) - _LISTED} more, in {found.sweep.path / PAGE}")
    for row in found.rows:
        if row.trial.problem:
            print(f"warning: {row.trial.name} failed: {row.trial.problem}")
    for one in found.effects():
        spread = "" if math.isinf(one.half) else f" ± {one.half:.4f}"
        print(f"{one.setting}={one.value}: {metric} {one.mean:.4f}{spread} on average, {one.best:.4f} at best")
    if found.best is not None:
        print(f"best: {differing(found.best.trial.varied) or 'the base settings'}\n  {found.command}")
    print(f"look at: {found.sweep.path / PAGE}\ncompare some: {own_command()} compare {found.sweep.path}/0*")


def _tracksweep(experiment: Experiment, config: SweepConfig) -> int | None:
    """An experiment that trains nothing: settings of trackers, searched from stored detections."""
    words = tracksweep_words(experiment, config)
    print(f"{own_command()} {' '.join(words)}")
    if config.dry_run:
        return None
    parse = imported("yolofast.cli:parse")
    code: int | None = imported("yolofast.commands.tracksweep:run")(parse(words))
    return code


def tracksweep_words(experiment: Experiment, config: SweepConfig) -> list[str]:
    """The command line; `grid` and `search` are its `--set`."""
    base: Mapping[str, Any] = experiment.base
    words = ["tracksweep", *(f"{name}={shown(value)}" for name, value in base.items())]
    sets = [f"{name}={','.join(shown(one) for one in values)}" for name, values in experiment.grid.items()]
    for name, one in experiment.search.items():
        if one.kind == "log":
            raise UserError(f"search.{name}: tracksweep draws evenly", fix=f"{name}: {{uniform: [0.1, 0.9]}}")
        ends = [shown(value) for value in one.values]
        sets.append(f"{name}={','.join(ends) if one.kind == 'choice' else ':'.join(ends)}")
    words += ["--set", *sets] if sets else []
    if experiment.method == "random":
        words += ["--random", str(experiment.trials), "--seed", str(experiment.seed)]
    if "output" not in base:
        words += ["--output", f"{config.project}/{config.name or experiment.name}"]
    return words
