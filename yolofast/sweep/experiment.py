"""`experiment.yaml`: what is tried, how it is judged, and how much it may cost. Every entry is checked before a run."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from yolofast.config.flags import field_name, python_name
from yolofast.config.hyp import HYP_KEYS, SETTABLE
from yolofast.config.settings import settings_of
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import typed_values
from yolofast.errors import UserError, nearest, shorten
from yolofast.files.yaml_file import YamlFile, dump_yaml, read_yaml
from yolofast.resources import find_resource
from yolofast.sweep.draws import Constraint, DrawnRange, read_constraint, read_range
from yolofast.sweep.metric import FITNESS, Metric, read_metric
from yolofast.sweep.stopping import Stopping, read_stopping

KEYS = {
    "command": "train, or tracksweep for settings of trackers",
    "base": "settings of every run: any flag of `yolofast train`, and hyper-parameters",
    "list": "names, and what each changes: {ota: {assigner: ota}, long: {epochs: 300}}",
    "grid": "settings and values, of which every combination is tried: {assigner: [anchor, ota]}",
    "search": "settings and ranges to draw from: {lr0: {log: [1e-4, 1e-2]}}; uniform, int and choice, too",
    "method": "grid, random, tpe (Optuna), pbt or evolve; default: grid, with `search` random",
    "pbt": "{population: 8, every: 5, share: 0.25}: how many runs, and after how many epochs the worst become copies",
    "seeds": "a number of seeds, from that of base on, or a list of them: each combination is trained with all",
    "constraints": "what must hold: [batch_size * img_size <= 20480]",
    "metric": "map, map50, fitness, another column of results.csv, {hours_to: 0.3}, {money_to: 0.3}, or idf1",
    "track": "flags of tracksweep for metric: idf1, hota or mota: {data: sequences.yaml, tracker: bytetrack}",
    "budget": "{trials: 20, hours: 8, money: 30}: what all trials may take together",
    "price": "of an hour of one device, in any currency",
    "stop": "{asha: {grace: 3, factor: 3}} or {median: {grace: 3}}: which runs are not continued",
    "parallel": "runs at once on each GPU, or on the CPU; default 1; auto: as many as pay, measured",
    "seed": "of what is drawn",
}
METHODS = ("grid", "random", "tpe", "pbt", "evolve")
_BUDGET = ("trials", "hours", "money")
_ENTRIES = KEYS.keys() - {"command", "base", "seed"}
"""That may stand beside settings on the command line: `seeds=3 price=0.6`. `seed` is that of the runs there."""
_COMMANDS = ("train", "tracksweep")
_OWN = {"project", "name", "exist_ok", "resume", "until_epoch", "time_limit", "explain", "against", "evolve", "device"}
"""Settings that the sweep sets itself."""
_USUAL_TRIALS, MOST_TRIALS = 20, 2000
_MOST_EPOCHS, _MOST_CONSTRAINTS = 1_000_000, 1000


@dataclass(frozen=True, kw_only=True)
class Experiment:
    name: str
    base: Mapping[str, Any]
    listed: Mapping[str, Mapping[str, Any]]
    grid: Mapping[str, Sequence[Any]]
    search: Mapping[str, DrawnRange]
    method: str
    seeds: tuple[int, ...]
    constraints: tuple[Constraint, ...]
    metric: Metric
    trials: int
    hours: float | None
    price: float | None
    stopping: Stopping | None
    parallel: int
    """0: to be measured."""
    seed: int
    share: float = 0.0
    """Of a population, that is replaced at each of its rungs."""
    text: str
    """The file, as it is kept in the sweep's folder."""
    command: str = "train"

    @property
    def epochs(self) -> int:
        """Of a run that says nothing else."""
        found = self.base.get("epochs", TrainConfig.epochs)
        if type(found) is not int or not 0 < found <= _MOST_EPOCHS:
            raise UserError(f"base.epochs is {shorten(found)}", fix=f"give a whole number up to {_MOST_EPOCHS:,}")
        return found

    @property
    def grows(self) -> bool:
        """A trial depends on those that have ended."""
        return self.method in ("evolve", "tpe")


def read_experiment(name: str | Path, changes: Sequence[str] = ()) -> Experiment:
    """Of a file, or a packaged one by its short name; `changes` are settings of `base`, or entries, as `key=value`."""
    path = find_resource(name, "experiments")
    file, text = read_yaml(path), path.read_text(encoding="utf-8")
    try:
        base = file.values.get("base") or {}
        if changes and isinstance(base, dict):
            of_train = file.values.get("command", "train") == "train"
            by_fields = _by_fields if of_train else lambda place, settings: settings
            more = typed_values(changes, {}, "epochs=30")
            file.values.update({key: more.pop(key) for key in _ENTRIES & more.keys()})
            file.values["base"] = {**by_fields("base.", base), **by_fields("", more)}
            text = dump_yaml(file.values)
        found = _read(file, path.stem, text)
    except UserError as error:
        line = error.line if error.line is not None else file.line(error.what.split()[0].strip("'").split(".")[0])
        raise UserError(error.what, where=error.where or path, line=line, fix=error.fix) from None
    return found


def _read(file: YamlFile, name: str, text: str) -> Experiment:
    values = file.values
    for key in values:
        if key not in KEYS:
            what = f"{key} is no entry of an experiment{nearest(str(key), KEYS)}"
            raise UserError(what, fix=f"use {', '.join(KEYS)}")
    command = _one_of(values, "command", _COMMANDS, "train")
    base, listed, grid, search = (_mapping(values, key) for key in ("base", "list", "grid", "search"))
    constraints = tuple(read_constraint(one) for one in _listing(values, "constraints")[:_MOST_CONSTRAINTS])
    if command == "train":
        base, grid, search = _by_fields("base.", base), _by_fields("grid.", grid), _by_fields("search.", search)
        listed = {key: _by_fields(f"list.{key}.", one) if isinstance(one, dict) else one for key, one in listed.items()}
        constraints = tuple(one.renamed(partial(field_name, TrainConfig)) for one in constraints)
    ranges = {key: read_range(key, one) for key, one in search.items()}
    method = _one_of(values, "method", METHODS, "random" if ranges else "grid")
    for key, one in listed.items():
        if not isinstance(one, dict):
            raise UserError(f"list.{key} is {shorten(one)}", fix=f"give what it changes: {key}: {{epochs: 300}}")
    for key, one in grid.items():
        if not isinstance(one, list) or not one:
            raise UserError(f"grid.{key} is {shorten(one)}", fix=f"give a list of values: {key}: [0, 1]")
    budget = {key: _positive(f"budget.{key}", one) for key, one in _mapping(values, "budget").items()}
    for key in budget:
        if key not in _BUDGET:
            raise UserError(f"budget.{key} is no limit{nearest(str(key), _BUDGET)}", fix=f"use {', '.join(_BUDGET)}")
    if (trials := budget.get("trials", 1.0)) % 1 or trials < 1:
        raise UserError(f"budget.trials is {trials:g}", fix="give a whole number from 1")
    if (count := len(_listing(values, "constraints"))) > _MOST_CONSTRAINTS:
        raise UserError(f"constraints has {count:,} entries", fix=f"give at most {_MOST_CONSTRAINTS:,}")
    price = None if values.get("price") is None else _positive("price", values["price"])
    if "money" in budget and price is None:
        raise UserError("budget.money needs the price of an hour", fix="add price: 2.5")
    hours = [budget[key] / part for key, part in (("hours", 1.0), ("money", price or 1.0)) if key in budget]
    if method == "grid" and ranges:
        raise UserError("search has ranges, of which a grid has no end", fix="method: random, or lists in grid")
    if method in ("random", "tpe", "pbt") and not ranges:
        raise UserError(f"method is {method}, but there is no search", fix="search: {lr0: {log: [1e-4, 1e-2]}}")
    if method in ("tpe", "pbt") and command == "tracksweep":
        raise UserError(f"method is {method}, which tracksweep does not know", fix="method: random")
    if "pbt" in values and method != "pbt":
        raise UserError("pbt is given, but method is another", fix="method: pbt")
    usual = MOST_TRIALS if method == "grid" else _USUAL_TRIALS
    experiment = Experiment(
        name=name, base=base, listed=listed, grid=grid, search=ranges, method=method, seeds=_seeds(values, base),
        constraints=constraints,
        metric=read_metric(
            values.get("metric", FITNESS if method == "evolve" else "map"), _mapping(values, "track"), price
        ),
        trials=round(budget.get("trials", usual)),
        hours=min(hours, default=None), price=price, stopping=None, parallel=_parallel(values),
        seed=_whole(values, "seed", 0), text=text, command=command,
    )  # fmt: skip
    if command == "train":
        _check_names(experiment)
        if method == "pbt":
            return read_population(values, experiment)
        stopping = read_stopping(values.get("stop"), experiment.epochs)
        experiment = dataclasses.replace(experiment, stopping=stopping)
    return experiment


def _by_fields(place: str, settings: Mapping[Any, Any]) -> dict[str, Any]:
    """One name for each setting: `batch` of the base is what a grid calls `batch_size`."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        name = field_name(TrainConfig, str(key))
        if name in found:
            raise UserError(f"{place}{key} and another name of {name} are both given", fix="give one of them")
        found[name] = value
    return found


def _check_names(experiment: Experiment) -> None:
    """Of settings; their values are checked with each trial."""
    declared = settings_of(TrainConfig)
    names = {*declared, *(python_name(flag) for one in declared.values() for flag in one.flags)}
    given = {"base": experiment.base, "grid": experiment.grid, "search": experiment.search}
    given |= {f"list.{name}": one for name, one in experiment.listed.items()}
    given["constraints"] = {
        part: None for one in experiment.constraints for part in one.left if not re.fullmatch(r"[\d.eE+-]+", part)
    }
    for place, settings in given.items():
        for name in settings:
            if name in _OWN:
                raise UserError(
                    f"{place}.{name} is set by the sweep itself", fix="remove it; --device is a flag of sweep"
                )
            if name not in names and name not in SETTABLE:
                what = f"{place}.{name} is no setting of train{nearest(str(name), names | SETTABLE)}"
                raise UserError(what, fix="docs/flags.md lists them")
    _refuse_two_places(experiment)
    method = experiment.method
    if method in ("tpe", "pbt") and len(experiment.seeds) > 1:
        what = f"seeds has several, but {method} judges each trial by itself"
        raise UserError(what, fix="seeds: [0]; then train the best again")
    if method in ("evolve", "pbt"):
        wrong = [name for name in experiment.search if name not in HYP_KEYS]
        if wrong or experiment.grid or experiment.listed:
            what = f"{method} changes hyper-parameters of YOLOv7 alone, not {', '.join(wrong) or 'grid or list'}"
            raise UserError(what, fix="method: random, or leave it out")


def _refuse_two_places(experiment: Experiment) -> None:
    """One of them would be the one that counts, and trials would have names that are not true."""
    varied = {"grid": experiment.grid, "search": experiment.search}
    listed = {f"list.{name}": one for name, one in experiment.listed.items()}
    for name in experiment.grid.keys() | experiment.search.keys():
        places = [place for place, settings in (varied | listed).items() if name in settings]
        places += ["seeds"] * (name == "seed" and len(experiment.seeds) > 1)
        if len(places) > 1:
            raise UserError(f"{places[0]}.{name} is in {places[1]}, too", fix="vary a setting in one of them")
    of_list = [place for place, settings in listed.items() if "seed" in settings]
    if of_list and len(experiment.seeds) > 1:
        raise UserError(f"{of_list[0]}.seed is in seeds, too", fix="vary a setting in one of them")


def read_population(values: Mapping[Any, Any], experiment: Experiment) -> Experiment:
    """Of `pbt: {population: 8, every: 5, share: 0.25}`; all members are there from the beginning."""
    usual = {"population": 8, "every": max(experiment.epochs // 10, 1), "share": 0.25}
    given = _mapping(values, "pbt")
    for key in given:
        if key not in usual:
            raise UserError(f"pbt.{key} is no entry{nearest(str(key), usual)}", fix=f"use {', '.join(usual)}")
    found = usual | {key: _positive(f"pbt.{key}", one) for key, one in given.items()}
    if "trials" in _mapping(values, "budget"):
        raise UserError("budget.trials does not go with pbt", fix="pbt: {population: 8} says how many runs there are")
    if "stop" in values:
        raise UserError("stop does not go with pbt, which continues all of its runs", fix="leave stop out")
    if found["population"] < 2 or found["share"] > 0.5 or any(found[key] % 1 for key in ("population", "every")):
        fix = "whole numbers, a population of at least 2, and a share of at most 0.5"
        raise UserError(f"pbt is {shorten(given)}", fix=fix)
    every = round(found["every"])
    stopping = Stopping("pbt", tuple(range(every, experiment.epochs, every)))
    if not stopping.rungs:
        what = f"pbt.every is {every}, but runs have {experiment.epochs} epochs"
        raise UserError(what, fix="fewer epochs before the first change, or longer runs")
    trials = min(round(found["population"]), MOST_TRIALS)
    return dataclasses.replace(experiment, stopping=stopping, share=float(found["share"]), trials=trials)


def _mapping(values: Mapping[Any, Any], key: str) -> dict[str, Any]:
    found = values.get(key) or {}
    if not isinstance(found, dict):
        raise UserError(f"{key} is {shorten(found)}", fix=f"give {KEYS[key]}")
    return {str(name): one for name, one in found.items()}


def _listing(values: Mapping[Any, Any], key: str) -> list[Any]:
    found = values.get(key) or []
    if not isinstance(found, list):
        raise UserError(f"{key} is {shorten(found)}", fix=f"give {KEYS[key]}")
    return found


def _one_of(values: Mapping[Any, Any], key: str, words: Sequence[str], default: str) -> str:
    found = values.get(key, default)
    if found not in words:
        raise UserError(f"{key} is {shorten(found)}{nearest(str(found), words)}", fix=f"use {', '.join(words)}")
    return str(found)


def _positive(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise UserError(f"{key} is {shorten(value)}", fix="give a number above 0")
    return float(value)


def _parallel(values: Mapping[Any, Any]) -> int:
    return 0 if values.get("parallel") == "auto" else _whole(values, "parallel", 1)


def _whole(values: Mapping[Any, Any], key: str, default: int) -> int:
    found = values.get(key, default)
    if type(found) is not int or not min(default, 1) <= found <= 2**31:
        raise UserError(f"{key} is {shorten(found)}", fix=f"give a whole number, {KEYS[key]}")
    return found


def _seeds(values: Mapping[Any, Any], base: Mapping[str, Any]) -> tuple[int, ...]:
    """A number of them counts from the seed of `base`, which every other command means by `seed`."""
    first = base.get("seed", TrainConfig.seed)
    given = values.get("seeds", [first])
    begins = first if type(first) is int else 0
    seeds = list(range(begins, begins + given)) if type(given) is int and 0 < given <= 1000 else given
    if not isinstance(seeds, list) or not seeds or any(type(one) is not int or one < 0 for one in seeds):
        raise UserError(f"seeds is {shorten(given)}", fix="give a number of seeds, or a list: [0, 1, 2]")
    if first not in seeds and "seed" in base:
        what = f"seeds is {shorten(given)}, but base.seed is {shorten(first)}"
        raise UserError(what, fix=f"seeds: {len(seeds)} counts from that of base; or leave base.seed out")
    return tuple(dict.fromkeys(seeds))


def folder_name(text: str) -> str:
    """Of letters that every file system takes."""
    return re.sub(r"[^\w.=+-]+", "-", text).strip("-.") or "sweep"
