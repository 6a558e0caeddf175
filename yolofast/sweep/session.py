"""A sweep from its file to its results: what `yolofast sweep`, `train --evolve` and `yolofast.sweep` call."""

import dataclasses
import json
import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from yolofast.config.flags import from_settings
from yolofast.config.reports import SweepConfig
from yolofast.config.resumed import plain_values
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.files.atomic_file import write_whole
from yolofast.files.own_file import mark
from yolofast.files.yaml_file import dump_yaml
from yolofast.pages.html import render_page
from yolofast.runs.layout import FILES, SWEEP_PAGE, SWEEP_SUMMARY
from yolofast.runs.reader import RunFolder
from yolofast.sweep.experiment import folder_name, read_experiment
from yolofast.sweep.folder import EXPERIMENT, Say, SweepFolder, latest_sweep
from yolofast.sweep.measure import COUNTS, best_together
from yolofast.sweep.page import page_of
from yolofast.sweep.places import Place, Start, place_of, slots_of
from yolofast.sweep.queue import Queue
from yolofast.sweep.results import SweepResults, results_of
from yolofast.sweep.slurm import slurm_jobs
from yolofast.sweep.trials import look_at_files, planned
from yolofast.words import counted, own_command

MADE_BY = "yolofast sweep"
PAGE, JSON, BEST_HYP, AT_ONCE = SWEEP_PAGE, SWEEP_SUMMARY, "best-hyp.yaml", "parallel.json"
_GENERATIONS = 300
"""Published for YOLOv7's `--evolve`."""
_NOT_OF_A_TRIAL = {"evolve", "project", "name", "exist_ok", "resume", "device"}


def sweep(
    experiment: str | Path | Mapping[str, Any] | None = None,
    *,
    on_line: Say = print,
    start: Start = subprocess.Popen,
    **settings: Any,
) -> SweepResults:
    """Runs the experiment of a file, a packaged one, or a dictionary, and returns its results, the best trial first.

    `settings` are the flags of `yolofast sweep`: `resume=True, device="0", name="again"`. `on_line` gets what the
    command prints. `.to_pandas()` of the results is a data frame.
    """
    if isinstance(experiment, Mapping):
        with TemporaryDirectory() as folder:
            file = Path(folder) / "sweep.yaml"
            file.write_text(dump_yaml(dict(experiment)), encoding="utf-8")
            config = from_settings(SweepConfig, {**settings, "experiment": str(file)})
            opened = open_sweep(config)
        return run_sweep(opened, config, on_line, start)
    named = {} if experiment is None else {"experiment": str(experiment)}
    config = from_settings(SweepConfig, {**settings, **named})
    return run_sweep(open_sweep(config), config, on_line, start)


def open_sweep(config: SweepConfig) -> SweepFolder:
    """A new one, or with `--resume` one that was begun."""
    if config.experiment is None and not config.resume:
        raise UserError(
            "no experiment is named", fix="yolofast sweep experiment.yaml, or --resume for the latest sweep"
        )
    if config.resume and config.values:
        raise UserError("--set changes an experiment that is begun", fix="edit experiment.yaml in the sweep's folder")
    project = Path(config.project)
    if not config.resume:
        experiment = read_experiment(str(config.experiment), config.values)
        folder = project / folder_name(config.name or experiment.name)
        if not config.is_elsewhere:
            slots_of(config.device, 1)
        trials = planned(experiment)
        look_at_files(trials)
        return SweepFolder.new(folder, experiment, trials)
    named = Path(config.experiment) if config.experiment else None
    if named is not None and named.is_dir():
        folder = named
    elif config.name or named is not None:
        folder = project / folder_name(config.name or Path(str(named)).stem)
    else:
        folder = latest_sweep(project)
    return _with_new_trials(SweepFolder.open(folder))


def _with_new_trials(opened: SweepFolder) -> SweepFolder:
    """Its `experiment.yaml` may have been given more values, seeds or budget; what was tried stays."""
    if opened.experiment.grows or opened.experiment.method == "pbt":
        return opened
    plan = {one.name: one for one in planned(opened.experiment)}
    for trial in opened.trials:
        if trial.name not in plan or plan[trial.name].settings != trial.settings:
            what = f"the experiment has changed: {trial.name} is not among its trials, or has other settings"
            fix = "add values at the end of lists only, or begin another sweep with --name"
            raise UserError(what, where=opened.path / EXPERIMENT, fix=fix)
        del plan[trial.name]
    opened.trials += plan.values()
    opened.save()
    return opened


def run_sweep(opened: SweepFolder, config: SweepConfig, say: Say, start: Start = subprocess.Popen) -> SweepResults:
    with opened.lock() as lock, ExitStack() as entered:
        lock.take(opened.path)
        try:
            place = entered.enter_context(_place(opened, config, say, start))
        except UserError:
            opened.withdraw()
            raise
        trials, at_once = counted(len(opened.trials), "trial"), len(place.slots)
        opened.per_device = place.per_device
        opened.save()
        say(f"sweep: {opened.path}, {trials}, {at_once} at once on {place.title}")
        write_results(opened)  # for `watch`, which shows a sweep from its beginning
        queue = Queue(opened, place.slots, say, place.start)
        queue.run(lambda: write_results(opened))
        if queue.why_over:
            say(queue.why_over)
        return write_results(opened)


def _place(opened: SweepFolder, config: SweepConfig, say: Say, start: Start) -> AbstractContextManager[Place]:
    if config.slurm:
        return slurm_jobs(config.slurm, config.at_once, opened.path)
    return place_of(config, _at_once(opened, config, say, start), start)


def _at_once(opened: SweepFolder, config: SweepConfig, say: Say, start: Start) -> int:
    """Trials on each device. `parallel: auto` is measured once, and kept."""
    if opened.experiment.parallel:
        return opened.experiment.parallel
    first, kept = slots_of(config.device, 1)[0], opened.path / AT_ONCE
    if config.is_elsewhere and (first.is_cpu or not config.address):
        what = "parallel: auto measures a GPU of this machine, "
        what += "which has none" if config.address else "and trials run elsewhere"
        raise UserError(what, where=opened.path / EXPERIMENT, fix="parallel: 2, or without it")
    if config.address:
        say("parallel: auto is measured on this machine; the GPUs of the cluster have to be like this one")
    if first.is_cpu:
        say("parallel: auto is 1 on a CPU, whose cores a single trial uses")
        return 1
    known = RunFolder(opened.path).entries(AT_ONCE).get("trials")
    if not isinstance(known, int) or not 0 < known <= max(COUNTS):
        known = best_together(opened.trials, first.device, start, say)
        write_whole(kept, json.dumps({"trials": known}).encode() + b"\n")
    say(f"parallel: auto is {known}")
    return known


def write_results(opened: SweepFolder) -> SweepResults:
    """The page and JSON, also of a sweep that is not over."""
    found = results_of(opened)
    write_whole(opened.path / PAGE, (render_page(page_of(found)) + mark(MADE_BY)).encode("utf-8", "replace"))
    write_whole(opened.path / JSON, (json.dumps(found.as_json(), indent=2) + "\n").encode())
    best = found.best
    if opened.experiment.method == "evolve" and best is not None:
        hyp = opened.run(best.trial) / FILES.hyp
        if hyp.is_file():
            write_whole(opened.path / BEST_HYP, hyp.read_bytes())
    return found


def evolve(config: TrainConfig, given: dict[str, Any], say: Say, start: Start = subprocess.Popen) -> SweepResults:
    """`train --evolve`: generations of YOLOv7's hyper-parameters, as a sweep beside the runs."""
    usual = plain_values(TrainConfig())
    base = {name: value for name, value in plain_values(config).items() if value != usual[name]}
    base = {name: value for name, value in base.items() if name not in _NOT_OF_A_TRIAL}
    unsaid = {"workers"} if Path(config.weights).exists() else {"workers", "weights"}
    for name in unsaid - given.keys():  # published defaults, for which `train` has words of its own
        base.pop(name, None)
    values = {"base": base, "method": "evolve", "budget": {"trials": _GENERATIONS}}
    folder, number = Path(config.project) / "evolve" / config.name, 1
    if folder.exists() and config.exist_ok:
        return _generations(SweepFolder.open(folder), config, say, start)
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{config.name}{number}")
    folder.mkdir(parents=True)
    write_whole(folder / EXPERIMENT, dump_yaml(values).encode())
    experiment = dataclasses.replace(read_experiment(folder / EXPERIMENT), name=folder.name)
    return _generations(SweepFolder.new(folder, experiment, planned(experiment)), config, say, start)


def _generations(opened: SweepFolder, config: TrainConfig, say: Say, start: Start) -> SweepResults:
    try:
        return run_sweep(opened, SweepConfig(device=config.device), say, start)
    except KeyboardInterrupt:
        say(f"every generation is kept: {own_command()} sweep {opened.path} --resume")
        raise
