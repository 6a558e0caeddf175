"""Trials for Ray Tune: a function for its `Tuner`, for those who want its own searchers and schedulers.

Between two reports a trial is one process of `yolofast train`, which pauses. So nothing is being trained while Tune
decides, and a checkpoint is the run's folder. What continues from one, after a crash or as the copy of another trial,
does so exactly: as a run that was resumed, or as in `population.py`.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from yolofast.config.flags import field_name
from yolofast.config.hyp import HYP_KEYS
from yolofast.config.resumed import lasting_files
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.extensions import needed
from yolofast.runs.layout import FILES, MAP, MAP50
from yolofast.runs.reader import RunFolder
from yolofast.sweep.experiment import folder_name
from yolofast.sweep.trials import Trial, checked, look_at_files, typed, without_effect, words_of
from yolofast.train.fork import fork

_LAST_WORDS = 500


def trainable(
    *, every: int = 1, project: str | Path = "runs/tune", **settings: Any
) -> Callable[[dict[str, Any]], None]:  # fmt: skip
    """A function for `ray.tune.Tuner`; what its `param_space` draws is added to `settings`, the flags of `train`.

    A trial reports `map`, `map50`, `fitness`, `epoch` and the columns of `results.csv` every so many epochs, with its
    state. Its run lies in `project`, a folder that is seen from all machines.
    """
    if every < 1:
        raise UserError(f"every is {every}", fix="give the epochs between two reports, from 1")
    look_at_files(checked([Trial("trainable", _plain(settings), {})]))
    home = Path.cwd()  # Tune changes it

    def yolofast(config: dict[str, Any]) -> None:
        given = {**_plain(settings), **_plain(config)}
        _train({**given, **lasting_files(given, home)}, every, home, home / project)

    return yolofast


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """One name for each, `batch_size` for `batch`; and no numbers of NumPy."""
    fields = {field_name(TrainConfig, name): value for name, value in settings.items()}
    return {name: value.item() if hasattr(value, "item") else value for name, value in fields.items()}


def _train(settings: dict[str, Any], every: int, home: Path, project: Path) -> None:
    tune = needed("ray.tune", "sweep", "yolofast.sweep.tune")
    trial = Trial(folder_name(tune.get_context().get_trial_name()), settings, {})
    checked([trial])
    run, epochs = project / trial.name, typed(settings)[0].epochs
    kept = tune.get_checkpoint()
    if kept is not None:
        with kept.as_directory() as source:
            _continue(Path(source), run, trial)
    while (done := _epochs(run)) < epochs:
        _train_until(min(done + every, epochs), trial, home, run)
        if wrong := without_effect(trial, run):
            raise UserError(f"settings did not take effect: {'; '.join(wrong)}", where=run)
        if _epochs(run) == done:
            return  # it has ended before, as with --patience
        tune.report(_figures(run), checkpoint=tune.Checkpoint.from_directory(str(run)))


def _epochs(run: Path) -> int:
    return len(RunFolder(run).results) if (run / FILES.results).is_file() else 0


def _continue(source: Path, run: Path, trial: Trial) -> None:
    """From the state of this trial or of another one, with this one's hyper-parameters."""
    hyp = {name: value for name, value in trial.settings.items() if name in HYP_KEYS}
    others = {name: value for name, value in trial.settings.items() if name not in hyp}
    if wrong := without_effect(Trial(trial.name, others, {}), source):
        what = f"a trial cannot continue with other settings than its parent's: {'; '.join(wrong)}"
        raise UserError(what, fix="let PBT change hyper-parameters of YOLOv7 alone, such as lr0 or mosaic")
    run.parent.mkdir(parents=True, exist_ok=True)
    fork(source, run, hyp, typed(trial.settings)[0].recipe_values, _epochs(source))


def _train_until(epoch: int, trial: Trial, home: Path, run: Path) -> None:
    """The GPU is the one that Ray gives to the process."""
    words = ["train", "--project", str(run.parent), "--name", run.name, "--resume", "auto"]
    words += ["--until-epoch", str(epoch), *words_of(trial.settings)]
    run.parent.mkdir(parents=True, exist_ok=True)
    log = run.with_name(f"{run.name}.txt")
    with log.open("ab") as file:
        done = subprocess.run(
            [sys.executable, "-m", "yolofast", *words],
            cwd=home, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=dict(os.environ),
        )  # fmt: skip
    if done.returncode:
        last = log.read_text(encoding="utf-8", errors="replace").strip()[-_LAST_WORDS:]
        raise UserError(f"exit code {done.returncode}: {last}", where=log)


def _figures(run: Path) -> dict[str, float]:
    """Of the last epoch."""
    found = RunFolder(run)
    figures = {name: float(found.column(name)[-1]) for name in found.results.text}
    short = {"map": found.column(MAP.name), "map50": found.column(MAP50.name), "fitness": found.fitness()}
    return {**figures, **{name: float(column[-1]) for name, column in short.items()}, "epoch": _epochs(run)}
