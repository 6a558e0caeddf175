"""The runs of an experiment: their settings, what is different about each, and whether its settings took effect."""

import dataclasses
import itertools
import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.checkpoint.published import find_weights
from yolofast.config.flags import from_settings, resolve
from yolofast.config.hyp import SETTABLE, hyp_of, with_set_values
from yolofast.config.resumed import plain_values, with_lasting_names
from yolofast.config.settings import in_form, settings_of
from yolofast.config.train import TrainConfig
from yolofast.dataset.data_argument import look_at_data
from yolofast.errors import UserError
from yolofast.runs.reader import RunFolder
from yolofast.sweep.draws import DrawnRange, mutated
from yolofast.sweep.experiment import MOST_TRIALS, Experiment, folder_name
from yolofast.sweep.tpe import Known, suggested
from yolofast.train.families.family import completed
from yolofast.words import own_command

_LONGEST_NAME = 80
_TRIES = 50
"""Draws in a row that are none: constraints forbid them, or they were drawn before."""
_NOT_EVOLVED = {"iou_t", "loss_ota", "nbs", "anchors", "gr"}


@dataclass
class Trial:
    name: str
    """Of its folder."""
    settings: dict[str, Any]
    """All that differ from the defaults of `train`, hyper-parameters too."""
    varied: dict[str, Any]
    """Of those, what the experiment varies."""
    seconds: float = 0.0
    """That its processes have taken so far."""
    problem: str = ""
    """Why it is not continued."""
    parent: str = ""
    """Of a population: the trial whose weights it continues from, …"""
    replaces: str = ""
    """… the one whose place it takes, …"""
    born: int = 0
    """… after that many epochs, …"""
    inherited: float = 0.0
    """… which took so many seconds."""
    restarts: int = field(default=0, compare=False)
    """Of this sweep's process, since it last got further."""

    def as_json(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        ancestry = ("parent", "replaces", "born", "inherited") if self.parent else ()
        return {name: values[name] for name in ("name", "settings", "varied", "seconds", "problem", *ancestry)}


def planned(experiment: Experiment) -> list[Trial]:
    """All trials of a grid or a random search, checked; of an evolution the first, which has the base settings."""
    found: list[Trial] = []
    if experiment.method == "evolve":
        return [new_trial(experiment, 0, {}, evolved_from(experiment))]
    if experiment.method == "tpe":
        first = suggested_trial(experiment, [], 0)
        found += [] if first is None else [first]
    for varied in () if experiment.grows else _configurations(experiment):
        settings = _settings(experiment, varied)
        for seed in experiment.seeds:
            if len(found) == experiment.trials:
                return checked(found)
            more = {"seed": seed} if len(experiment.seeds) > 1 else {}
            found.append(new_trial(experiment, len(found), varied | more, settings | more))
    if not found:
        raise UserError("constraints leave no combination", fix="remove one of them")
    return checked(found)


def _settings(experiment: Experiment, varied: Mapping[str, Any]) -> dict[str, Any]:
    settings = {**experiment.base, **experiment.listed.get(varied.get("list", ""), {}), **varied}
    settings.pop("list", None)
    if isinstance(settings.get("epochs"), str) and (share := re.fullmatch(r"([1-9]\d{0,4})%", settings["epochs"])):
        settings["epochs"] = max(round(experiment.epochs * int(share[1]) / 100), 1)  # of those of the others
    return settings


def _choices(experiment: Experiment) -> dict[str, Sequence[Any]]:
    listed: dict[str, Sequence[Any]] = {"list": list(experiment.listed)} if experiment.listed else {}
    return listed | dict(experiment.grid)


def _ranges(experiment: Experiment) -> dict[str, DrawnRange]:
    choices = {name: DrawnRange("choice", tuple(values)) for name, values in _choices(experiment).items()}
    return choices | dict(experiment.search)


def _configurations(experiment: Experiment) -> Iterator[dict[str, Any]]:
    choices = _choices(experiment)
    if experiment.method == "grid":
        count = math.prod(len(values) for values in choices.values()) * len(experiment.seeds)
        if count > MOST_TRIALS:
            raise UserError(f"grid has {count:,} combinations", fix="give fewer values, or method: random")
        for values in itertools.product(*choices.values()):
            varied = dict(zip(choices, values, strict=True))
            if allowed(experiment, varied):
                yield varied
        return
    ranges = _ranges(experiment)
    chance, seen, tries = np.random.default_rng(experiment.seed), set[str](), 0
    while tries < _TRIES:
        varied = {name: one.draw(chance) for name, one in ranges.items()}
        key, tries = json.dumps(varied, sort_keys=True), tries + 1
        if key not in seen and allowed(experiment, varied):
            seen.add(key)
            tries = 0
            yield varied


def allowed(experiment: Experiment, varied: Mapping[str, Any]) -> bool:
    """By all constraints."""
    settings = _settings(experiment, varied)
    known = SETTABLE | settings_of(TrainConfig).keys()
    if {name for one in experiment.constraints for name in one.names if name in known} - settings.keys():
        settings = {**_usual(settings), **settings}
    return all(one.holds(settings) for one in experiment.constraints)


def _usual(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a run with these settings has for those that are not given: a constraint may name one."""
    try:
        config = completed(*typed(settings))
        return {**hyp_of(config), **plain_values(config)}
    except UserError:  # which is said of the trial, unless a constraint leaves it out
        return {}


def evolved_from(experiment: Experiment) -> dict[str, Any]:
    """The base settings with all hyper-parameters that may change, by their values."""
    config = completed(*typed(experiment.base))
    hyp = hyp_of(config)
    return {**experiment.base, **{name: hyp[name] for name in _evolving(experiment, hyp)}}


def _evolving(experiment: Experiment, hyp: Mapping[str, Any]) -> dict[str, DrawnRange]:
    """Multiplied, so those that are 0 stay out unless they are named, and a first value is in `base`."""
    if experiment.search:
        return dict(experiment.search)
    numbers = (name for name, value in hyp.items() if isinstance(value, float) and value)
    return {name: DrawnRange("choice", ()) for name in numbers if name not in _NOT_EVOLVED}


def next_generation(experiment: Experiment, done: Sequence[tuple[Trial, float]], number: int) -> Trial | None:
    """The trial of that number, from those that have ended and their fitness; None if constraints leave nothing."""
    first = evolved_from(experiment)
    ranges = _evolving(
        experiment, {name: first[name] for name in first if name not in experiment.base or name in experiment.search}
    )
    chance = np.random.default_rng((experiment.seed, number))
    for _ in range(_TRIES):
        values = mutated([(trial.settings, fitness) for trial, fitness in done], ranges, chance)
        varied = {name: values[name] for name in ranges}
        if allowed(experiment, {**first, **varied}):
            return checked([new_trial(experiment, number, varied, {**first, **varied})])[0]
    return None


def suggested_trial(experiment: Experiment, known: Sequence[Known], number: int) -> Trial | None:
    """The trial of that number, where those before make it promising; None if constraints and they leave nothing."""
    seed = int(np.random.SeedSequence((experiment.seed, number)).generate_state(1)[0])
    varied = suggested(_ranges(experiment), known, seed, partial(allowed, experiment))
    if varied is None:
        return None
    return checked([new_trial(experiment, number, varied, _settings(experiment, varied))])[0]


def new_trial(experiment: Experiment, number: int, varied: Mapping[str, Any], settings: Mapping[str, Any]) -> Trial:
    words = ",".join(_part(name, value) for name, value in varied.items()) if experiment.method != "evolve" else ""
    name = folder_name(f"{number:03}-{words}"[:_LONGEST_NAME])
    given = {key: value for key, value in settings.items() if value is not None}  # nothing: as `train` has it
    return Trial(name, {"seed": experiment.seeds[0], **given}, dict(varied))


def _part(name: str, value: Any) -> str:
    return str(value) if name == "list" else f"{name}={shown(value)}"


def shown(value: Any) -> str:
    """As `name=value` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(shown(one) for one in value)}]"
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def words_of(settings: Mapping[str, Any]) -> list[str]:
    """Of a command line."""
    fields = settings_of(TrainConfig)
    known = {
        name: _single(in_form(TrainConfig, name, value)) if name in fields else value
        for name, value in settings.items()
    }
    return [f"{name}={shown(value)}" for name, value in known.items() if value is not None]


def _single(value: Any) -> Any:
    """A flag that takes several values takes one without brackets, which a shell would want quoted."""
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else value


def command_of(trial: Trial) -> str:
    """Ready to be typed: a run of its own with these settings."""
    return f"{own_command()} train {shlex.join(words_of(trial.settings))}"


def typed(settings: Mapping[str, Any]) -> tuple[TrainConfig, dict[str, Any]]:
    """As `train` would read them; and by field those that are given."""
    flags = with_set_values(settings)
    config = from_settings(TrainConfig, flags)
    names = [resolve(TrainConfig, key, value)[0] for key, value in flags.items()]
    return config, {name: getattr(config, name) for name in names}


def checked(trials: list[Trial]) -> list[Trial]:
    """A sweep of a night must not end at a slip in its last trial."""
    for trial in trials:
        try:
            config = completed(*typed(trial.settings))
            hyp_of(config)
        except UserError as error:
            what = f"the trial {trial.name} cannot be run: {error.what}"
            where = None if error.where == "--set" else error.where  # nobody typed that
            raise UserError(what, where=where, line=error.line, fix=error.fix) from None
    return trials


def look_at_files(trials: Sequence[Trial]) -> None:
    """What `train` would refuse in each of them: data and weights that are not there."""
    configs = [(trial, typed(trial.settings)[0]) for trial in trials]
    looks: dict[str, Callable[[str], object]] = {"data": look_at_data, "weights": find_weights}
    for name, look in looks.items():
        for file in dict.fromkeys(getattr(config, name) for _, config in configs):
            if file:
                look(file)


def without_effect(trial: Trial, folder: Path) -> list[str]:
    """Settings that the run of the trial says otherwise, in `args.yaml` or `hyp.yaml`; empty as it should be."""
    run, (config, given) = RunFolder(folder), typed(trial.settings)
    meant = plain_values(with_lasting_names(config))
    pairs = {name: (meant[name], run.args.get(name)) for name in given if name != "recipe_values"}
    for text in with_set_values(trial.settings).get("recipe_values", ()):
        name, _, value = text.partition("=")
        if name in trial.settings:
            pairs[name] = json.loads(value), run.hyp.get(name)
    return [f"{name} is {ran!r}, not {wanted!r}" for name, (wanted, ran) in pairs.items() if not _same(wanted, ran)]


def _same(wanted: Any, ran: Any) -> bool:
    """A size may be rounded up to whole strides by the run, and -1 is a batch that it finds."""
    if isinstance(wanted, list) and isinstance(ran, list) and len(wanted) == len(ran):
        return all(_same(*pair) for pair in zip(wanted, ran, strict=True))
    return bool(
        wanted == ran or wanted == -1 or (isinstance(wanted, int) and wanted >= 32 and ran == -(-wanted // 32) * 32)
    )
