"""The task that SkyPilot is given: which machine, what is copied to it, and the one command that runs there.

The command is the same at every start: it continues the run or sweep of that name, or begins it. So a machine that was
taken away is replaced by typing nothing. Files of this machine are copied to `~/inputs`, runs lie in `~/runs`.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yolofast._version import __version__
from yolofast.config.reports import TRAIN, CloudUpConfig
from yolofast.config.settings import settings_of
from yolofast.config.train import TrainConfig
from yolofast.dataset.data_argument import look_at_data
from yolofast.dataset.data_yaml import read_data_yaml
from yolofast.errors import UserError
from yolofast.resources import BUILTIN_DATA, IN_FOLDER, ROOT, find_resource
from yolofast.sweep.experiment import Experiment, folder_name, read_experiment
from yolofast.sweep.trials import planned, shown

RUNS, INPUTS = "runs", "inputs"
"""Folders in the home of the machine."""
FILES_NAMED = ("weights", "cfg", "hyp", "recipe", "plan", "head_config", "head_params")
"""Settings that name a file; `data` names a folder."""
_SET_THERE = ("project", "name", "exist_ok", "resume", "device", "evolve", "explain", "against")


@dataclass(frozen=True)
class Task:
    name: str
    values: dict[str, Any]
    """As SkyPilot's YAML has them."""
    bucket: str


@dataclass
class _Inputs:
    """What is copied to the machine: places there, and here."""

    places: dict[str, str] = field(default_factory=dict)
    extras: tuple[str, ...] = ()
    """Of yolofast, that the machine needs."""

    def word(self, name: str, value: Any) -> str:
        """`name=value` for its shell, with files by their place there."""
        if name == "data" and isinstance(value, str):
            return self._data(value)
        if name in FILES_NAMED and isinstance(value, str) and os.path.isfile(value):
            path = Path(value).absolute()
            return self._there(name, f"{name}/{path.name}", path)
        return shlex.quote(f"{name}={shown(value)}")

    def _data(self, value: str) -> str:
        look_at_data(value)
        path = Path(value) / IN_FOLDER if os.path.isdir(value) else Path(value)
        if value in BUILTIN_DATA or not path.is_file():
            return shlex.quote(f"data={value}")
        path = path.absolute()
        _check_data(path)
        self.places[f"~/{INPUTS}/data"] = str(path.parent)
        return _in_home("data=", f"{INPUTS}/data/{path.name}")

    def _there(self, name: str, place: str, path: Path) -> str:
        self.places[f"~/{INPUTS}/{place}"] = str(path)
        return _in_home(f"{name}=" if name else "", f"{INPUTS}/{place}")

    def experiment(self, name: str) -> str:
        """Packaged ones are there already."""
        path = find_resource(name, "experiments")
        return shlex.quote(name) if path.is_relative_to(ROOT) else self._there("", "experiment.yaml", path.absolute())


def task_of(config: CloudUpConfig, given: Mapping[str, Any]) -> Task:
    """`given` are the flags of `train` that were typed."""
    for name in given:
        if name in _SET_THERE and name != "name":
            flag = settings_of(TrainConfig)[name].flag
            raise UserError(f"{flag} is set by cloud itself", fix=f"leave {flag} out")
    settings = {name: value for name, value in given.items() if name != "name"}
    inputs, is_sweep = _Inputs(), config.what != TRAIN
    name = folder_name(str(given.get("name") or (Path(config.what).stem if is_sweep else "cloud"))).lower()
    name = re.sub(r"[^a-z0-9-]+", "-", name).strip("-")  # as names of machines may be
    run = _sweep(config.what, name, settings, inputs) if is_sweep else _train(name, settings, inputs)
    mounts: dict[str, Any] = dict(inputs.places)
    if config.runs_in:
        mounts[f"~/{RUNS}"] = {"source": config.runs_in, "mode": "MOUNT_CACHED"}
    values = {"name": name, "resources": _resources(config)}
    values |= {"file_mounts": mounts} if mounts else {}
    install = config.install or f"yolofast[{','.join(('gpu', *inputs.extras))}]=={__version__}"
    values |= {"setup": f"python3 -m pip install --quiet {shlex.quote(install)}", "run": run}
    return Task(name, values, config.runs_in)


def _resources(config: CloudUpConfig) -> dict[str, Any]:
    found: dict[str, Any] = {"infra": config.provider, "accelerators": config.gpu, "disk_size": config.disk}
    found |= {"use_spot": True} if config.spot else {}
    found |= {"max_hourly_cost": config.max_price} if config.max_price else {}
    return found | ({"job_recovery": "EAGER_NEXT_REGION"} if config.runs_in else {})


def _train(name: str, given: Mapping[str, Any], inputs: _Inputs) -> str:
    words = ["yolofast train", *_words(given, inputs)]
    return " ".join([*words, f'--project "$HOME/{RUNS}" --name {name} --resume auto'])


def _sweep(what: str, name: str, given: Mapping[str, Any], inputs: _Inputs) -> str:
    """A sweep has no word for either; which it is follows from its folder."""
    pairs = [f"{key}={shown(value)}" for key, value in given.items() if key != "recipe_values"]
    experiment = read_experiment(what, [*pairs, *given.get("recipe_values", ())])
    if experiment.command != TRAIN:
        raise UserError("an experiment of trackers trains nothing", where=what, fix="run it here: yolofast sweep")
    planned(experiment)
    inputs.extras = ("optuna",) * (experiment.method == "tpe")
    _refuse_local_files(experiment, what)
    files = {key: experiment.base[key] for key in ("data", *FILES_NAMED) if key in experiment.base}
    words = " ".join([inputs.experiment(what), *_words({**given, **files}, inputs)])
    folder = f'"$HOME/{RUNS}/{name}"'
    begin = f'yolofast sweep {words} --project "$HOME/{RUNS}" --name {name}'
    return f"if [ -e {folder}/trials.json ]; then yolofast sweep {folder} --resume; else {begin}; fi"


def _words(given: Mapping[str, Any], inputs: _Inputs) -> Iterator[str]:
    for key, value in given.items():
        if key == "recipe_values":
            yield from map(shlex.quote, value)
        elif value is not None:
            yield inputs.word(key, value)


def _refuse_local_files(experiment: Experiment, what: str) -> None:
    """What a grid or `track` names is written in the file, where no place there can be put in."""
    for key, one in experiment.metric.track.items():
        if any(isinstance(name, str) and os.path.exists(name) for name in (one if isinstance(one, list) else [one])):
            fix = "metric: map; then track its checkpoints here: yolofast tracksweep --weights"
            raise UserError(f"track.{key} is {one}, of this machine alone", where=what, fix=fix)
    varied = [(f"grid.{key}", key, one) for key, values in experiment.grid.items() for one in values]
    varied += [
        (f"list.{name}.{key}", key, one) for name, part in experiment.listed.items() for key, one in part.items()
    ]
    for where, key, one in varied:
        if key in ("data", *FILES_NAMED) and isinstance(one, str) and os.path.exists(one):
            raise UserError(f"{where} is {one}, a file of this machine", where=what, fix="name files in base only")


def _check_data(path: Path) -> None:
    """Its folder is all that the machine gets."""
    data = read_data_yaml(path)
    if os.path.isabs(str(data.file.values.get("path") or "")):
        fix = "write path: . and name folders from there; the machine has another root"
        raise UserError("path is absolute", where=path, line=data.file.line("path"), fix=fix)
    for split in data.splits():
        for entry in data.entries(split):
            found = data.require(entry, split)
            if os.path.isabs(entry) or not found.is_relative_to(path.parent):
                what = f"{entry} is not below the folder of the data yaml, which is all that is copied"
                fix = "put the yaml above its images, and name them from there"
                raise UserError(what, where=path, line=data.file.line(split), fix=fix)


def _in_home(before: str, rest: str) -> str:
    """One word of a shell: its `$HOME` is known there only."""
    escaped = re.sub(r'(["$`\\])', r"\\\1", rest)
    return f'"{before}$HOME/{escaped}"'
