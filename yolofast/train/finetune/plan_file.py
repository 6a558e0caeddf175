"""Freeze plans: files that say which part of a network learns when, and how fast.

```yaml
plan:
- {until: 10, train: [head]}
- {until: 60%, train: [head, neck], lr_factors: {neck: 0.3}, warmup_epochs: 1}
- {freeze: 29, lr: 0.1, batch_norm: late}
```

Here only what a file says is checked; which layers its names mean is known when there is a network (`freeze_plan.py`).
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from yolofast.config.train import TrainConfig
from yolofast.errors import UserError, nearest, shorten
from yolofast.files.yaml_file import YamlFile, read_yaml
from yolofast.resources import find_resource

BatchNormPolicy = Literal["train", "eval", "late"]
LATE_EPOCHS = 20
ALL = "*"
"""The scope of a policy that names none: all layers that learn."""

_POLICIES = ("train", "eval", "late")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?) ?%")
_MOST_EPOCHS = 1_000_000
_MOST_FACTOR = 1000.0


@dataclass(frozen=True, kw_only=True)
class PhaseSpec:
    """One entry of a plan, as written."""

    until: int | float | None = None
    """The epoch, counted from 0, it ends before: a number, or a share of the run; None: the end."""
    train: tuple[str, ...] | None = None
    """Names of what learns; or …"""
    freeze: tuple[int | str, ...] | None = None
    """… what does not, as for `--freeze`. None and None: everything learns."""
    lr: float = 1.0
    """Factor of the schedule's learning rate."""
    lr_factors: tuple[tuple[str, float], ...] = ()
    """Further factors by scope; where scopes overlap, the last counts."""
    warmup_epochs: float | None = None
    """Epochs the learning rate takes to rise again; in a run's first phase the length of the run's own warm-up."""
    batch_norm: tuple[tuple[str, BatchNormPolicy], ...] = ()
    """By scope, of layers that learn: whether statistics move (`train`), stay (`eval`), or first stay (`late`)."""
    batch_norm_epochs: int = LATE_EPOCHS
    """How many epochs `late` is."""
    line: int | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class PlanSpec:
    name: str
    phases: tuple[PhaseSpec, ...]
    scopes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names of the plan's own, and the layers or parts they stand for."""
    layers: int | None = None
    """How many layers the network must have, where the plan speaks of their numbers."""
    epochs: int | None = None
    """Of which shares (`40%`) are meant; None: those of the run."""
    where: str | None = None

    @property
    def written(self) -> str:
        """What it says, to be compared: the same words on other lines are the same."""
        return repr((self.scopes, self.phases))


def read_plan(name: str | Path) -> PlanSpec:
    """A file, or a packaged plan by its name (`yolox-progressive`)."""
    path = find_resource(name, "plan")
    file = read_yaml(path)
    _refuse_unknown(file, file.values, ("plan", "scopes", "layers", "epochs"))
    entries = file.values.get("plan")
    if not isinstance(entries, list) or not entries:
        raise _fault(file, "plan", entries, "give a list of phases: `plan: [{until: 10, train: [head]}, {}]`")
    phases = tuple(_phase(file, number, entry) for number, entry in enumerate(entries))
    _check_order(file, phases)
    return PlanSpec(
        name=path.stem,
        phases=phases,
        scopes=_scopes(file),
        layers=_count(file, "layers", "give the number of the network's layers"),
        epochs=_count(file, "epochs", "give the number of epochs that shares such as 40% are of"),
        where=file.where,
    )


def _count(file: YamlFile, key: str, fix: str) -> int | None:
    value = file.values.get(key)
    if value is not None and (type(value) is not int or not 1 <= value <= _MOST_EPOCHS):
        raise _fault(file, key, value, fix)
    return value


def _phase(file: YamlFile, number: int, entry: Any) -> PhaseSpec:
    if not isinstance(entry, dict):
        what = f"phase {number + 1} is {shorten(entry)}"
        raise UserError(what, where=file.where, line=file.line("plan", number), fix="give {until: 10, train: [head]}")
    _refuse_unknown(file, entry, tuple(_READERS), "plan", number)
    values: dict[str, Any] = {}
    for key, value in entry.items():
        try:
            values[key] = _READERS[key](value)
        except _WrongValueError as wrong:
            what, line = f"phase {number + 1}: {key} is {shorten(value)}", file.line("plan", number, key)
            raise UserError(what, where=file.where, line=line, fix=f"give {wrong}") from None
    if "train" in values and "freeze" in values:
        what, line = f"phase {number + 1} has both train and freeze", file.line("plan", number)
        raise UserError(what, where=file.where, line=line, fix="say what learns, or what does not")
    return PhaseSpec(**values, line=file.line("plan", number))


class _WrongValueError(Exception):
    """With what was expected."""


def _until(value: Any) -> int | float:
    if type(value) is int and 1 <= value <= _MOST_EPOCHS:
        return value
    if isinstance(value, str) and (found := _PERCENT.fullmatch(value)) and 0 < float(found[1]) <= 100:
        return float(found[1]) / 100
    raise _WrongValueError("the number of epochs after which the phase ends, or a share of the run such as 40%")


def _names(value: Any) -> tuple[str, ...]:
    return tuple(map(str, _list(value, "names of parts, globs, or layer numbers: [head, neck, dark5], [74-77]")))


def _frozen(value: Any) -> tuple[int | str, ...]:
    return tuple(_list(value, "what --freeze takes: a number of layers, several layer numbers, or names"))


def _list(value: Any, expected: str) -> list[int | str]:
    given = value if isinstance(value, list) else [value]
    if not given or not all(_is_name(one) for one in given):
        raise _WrongValueError(expected)
    return given


def _is_name(value: Any) -> bool:
    return (isinstance(value, str) and bool(value)) or (type(value) is int and value >= 0)


def _number(least: float, most: float, what: str) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise _WrongValueError(what)
        return float(value)

    return read


def _factors(value: Any) -> tuple[tuple[str, float], ...]:
    expected = f"a factor from 0 to {_MOST_FACTOR:g} for each scope: {{neck: 0.3, backbone: 0.05}}"
    if not isinstance(value, dict) or not all(_is_name(name) for name in value):
        raise _WrongValueError(expected)
    return tuple((str(name), _number(0.0, _MOST_FACTOR, expected)(factor)) for name, factor in value.items())


def _policies(value: Any) -> tuple[tuple[str, BatchNormPolicy], ...]:
    given = value if isinstance(value, dict) else {ALL: value}
    if not all(_is_name(name) and policy in _POLICIES for name, policy in given.items()):
        raise _WrongValueError(f"one of {', '.join(_POLICIES)}, or one for each scope: {{backbone: eval}}")
    return tuple((str(name), policy) for name, policy in given.items())


def _epochs(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_EPOCHS:
        raise _WrongValueError("a number of epochs")
    return value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "until": _until,
    "train": _names,
    "freeze": _frozen,
    "lr": _number(0.0, _MOST_FACTOR, f"a factor from 0 to {_MOST_FACTOR:g}"),
    "lr_factors": _factors,
    "warmup_epochs": _number(0.0, _MOST_EPOCHS, "a number of epochs"),
    "batch_norm": _policies,
    "batch_norm_epochs": _epochs,
}


def _check_order(file: YamlFile, phases: tuple[PhaseSpec, ...]) -> None:
    for number, phase in enumerate(phases[:-1]):
        if phase.until is None:
            what, line = f"phase {number + 1} of {len(phases)} does not say when it ends", file.line("plan", number)
            fix = "add until: the number of epochs after which it ends"
            raise UserError(what, where=file.where, line=line, fix=fix)
    for kind in (int, float):
        ends = [(number, phase.until) for number, phase in enumerate(phases) if type(phase.until) is kind]
        for (_, before), (number, after) in pairwise(ends):
            if not after > before:
                what = f"phase {number + 1} ends no later than one before it"
                raise UserError(what, where=file.where, line=file.line("plan", number), fix="let until grow")


def _scopes(file: YamlFile) -> tuple[tuple[str, tuple[str, ...]], ...]:
    given = file.values.get("scopes", {})
    if not isinstance(given, dict):
        raise _fault(file, "scopes", given, "give names and what they stand for: {late: 23-37}")
    found = []
    for name, value in given.items():
        try:
            found.append((str(name), _names(value)))
        except _WrongValueError as wrong:
            what, line = f"scope {shorten(name)} is {shorten(value)}", file.line("scopes", str(name))
            raise UserError(what, where=file.where, line=line, fix=f"give {wrong}") from None
    return tuple(found)


def _refuse_unknown(file: YamlFile, values: Mapping[Any, Any], known: tuple[str, ...], *place: str | int) -> None:
    for key in values:
        if key not in known:
            where = f"phase {int(place[-1]) + 1}" if place else "a plan"
            what = f"{where} has no {shorten(key)}{nearest(str(key), known)}"
            raise UserError(what, where=file.where, line=file.line(*place, str(key)), fix=f"use {', '.join(known)}")


def _fault(file: YamlFile, key: str, value: Any, fix: str) -> UserError:
    return UserError(f"{key} is {shorten(value)}", where=file.where, line=file.line(key), fix=fix)


_LATE = "late"


def plan_spec_of(config: TrainConfig) -> PlanSpec:
    if config.plan:
        return read_plan(config.plan)
    if config.stage:
        return _with_stage_flags(read_plan(config.stage), config)
    return PlanSpec(name="--freeze", phases=(PhaseSpec(freeze=config.freeze),))


def _with_stage_flags(plan: PlanSpec, config: TrainConfig) -> PlanSpec:
    (phase,) = plan.phases
    factors = {"head": config.lr_mult_head, "neck": config.lr_mult_neck, _LATE: config.lr_mult_backbone}
    policy: BatchNormPolicy = "late" if config.bn_unfreeze_late else "eval"
    warmup = phase.warmup_epochs if config.warmup_restart_epochs == -1 else float(config.warmup_restart_epochs)
    changed = dataclasses.replace(
        phase,
        lr_factors=tuple((scope, factors[scope]) for scope, _ in phase.lr_factors),
        warmup_epochs=warmup,
        batch_norm=tuple((scope, policy if scope == _LATE else own) for scope, own in phase.batch_norm),
        batch_norm_epochs=config.bn_phase1_epochs,
    )
    return dataclasses.replace(plan, phases=(changed,))
