"""The stored settings of a run (`args.yaml`), and what may differ when it is resumed.

A resumed run has the settings it was started with, except those that do not change what is learnt. Files are stored by
absolute path, so that `--resume` finds them from any folder. Names of packaged files and of the built-in data set stay
as they are.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from yolofast.config.flags import from_settings, resolve, shown
from yolofast.config.motion import MotionTrainConfig
from yolofast.config.settings import Settings, in_form, settings_of
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import ENDS
from yolofast.errors import UserError, shorten
from yolofast.files.atomic_file import write_whole
from yolofast.files.yaml_file import dump_yaml, read_yaml
from yolofast.resources import BUILTIN_DATA, find_resource

_KINDS = {
    "data": "data", "hyp": "hyp", "recipe": "recipe", "cfg": "cfg", "head_config": "heads",
    "head_params": "head_params", "plan": "plan", "weights": "",
}  # fmt: skip
"""Settings that name a file, and where its short names are looked up; weights have none."""
_OF_ONE_START: dict[str, Any] = {"until_epoch": None, "time_limit": None}
"""They end a process, not the run: the next one has its own."""
Config = TypeVar("Config", bound=Settings)
Run = TypeVar("Run", TrainConfig, MotionTrainConfig)


def with_lasting_names(config: TrainConfig) -> TrainConfig:
    """As a run stores it: files by absolute path."""
    names = {setting: getattr(config, setting) for setting in _KINDS}
    return dataclasses.replace(config, **lasting_files(names))


def lasting_files(settings: Mapping[str, Any], folder: str | Path = ".") -> dict[str, Any]:
    """Those that name a file, seen from the folder, by absolute path."""
    given = {name: file for name, file in settings.items() if name in _KINDS and file}
    found = {name: os.path.abspath(os.path.join(folder, file)) for name, file in given.items()}
    return {name: file for name, file in found.items() if _is_on_disk(file)}


def saved_config(config: TrainConfig) -> dict[str, Any]:
    """As plain values."""
    return plain_values(with_lasting_names(config))


def plain_values(config: Settings) -> dict[str, Any]:
    """By name, with lists in place of tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(config).items()}


def is_gone(config: TrainConfig, setting: str) -> bool:
    """Whether a file that the settings name no longer exists."""
    name = getattr(config, setting)
    if not name or _is_on_disk(name) or (setting == "data" and name in BUILTIN_DATA):
        return False
    if not _KINDS[setting]:
        return True
    try:
        find_resource(name, _KINDS[setting])
    except UserError:
        return True
    return False


def _is_on_disk(name: str) -> bool:
    """A folder counts only as a data set: another one of that name hides nothing that is packaged."""
    return os.path.isfile(name) or os.path.isfile(os.path.join(name, "data.yaml"))


def resumed(stored: TrainConfig, given: Mapping[str, Any]) -> TrainConfig:
    """`stored` with what `given_settings` found on the command line; saying the same again is no change."""
    stored = dataclasses.replace(stored, **_OF_ONE_START)
    changes = {name: in_form(TrainConfig, name, value) for name, value in given.items()}
    if changes.get("batch_size") == -1 or stored.reduce_batch:
        changes.pop("batch_size", None)  # the run has found its own
    for name in changes.keys() & _KINDS:  # the stored file is no change, from whichever folder it was typed
        if getattr(stored, name) in (changes[name], os.path.abspath(changes[name])):
            del changes[name]
    # The content of a file that was moved is compared when it is read.
    return changed(stored, changes, moved={name for name in changes if name in _KINDS and is_gone(stored, name)})


def changed(stored: Run, changes: Mapping[str, Any], moved: Collection[str] = ()) -> Run:
    """Raises `UserError` for what a resumed run cannot have otherwise than it was started with."""
    for name, value in changes.items():
        declared, before = settings_of(type(stored))[name], getattr(stored, name)
        if value != before and not declared.changes_on_resume and name not in moved:
            what = f"{declared.flag} {shown(value)} with --resume: the run was started with {shown(before) or 'none'}"
            raise UserError(what, fix=f"omit {declared.flag}, or start a new run with --weights last.pt")
    config = dataclasses.replace(stored, **changes)
    if config.epochs < stored.epochs:
        what = f"--epochs {config.epochs} with --resume: the run was planned for {stored.epochs}"
        raise UserError(what, fix=f"give at least {stored.epochs}, or omit it")
    return config


def check_same_hyp(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Hyper-parameters come from a file, which may have been edited since the run began."""
    changed = [key for key in {**before, **now} if _plain(before.get(key)) != _plain(now.get(key))]
    if changed:
        first = ", ".join(f"{key} was {shorten(before.get(key))} and is {shorten(now.get(key))}" for key in changed[:3])
        fix = "restore the file (the run's folder has a copy, hyp.yaml), or start a new run with --weights"
        raise UserError(f"the hyper-parameters have changed since the run began: {first}", fix=fix)


def check_same_recipe(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """The same for YOLOX's; what follows from settings, which are checked themselves, may differ."""
    follows = {"model", "epochs", "batch_size", "freeze"}
    follows |= set(ENDS) if before.get("epochs") != now.get("epochs") else set()
    check_same_hyp(*({key: values[key] for key in values if key not in follows} for values in (before, now)))


def check_same_classes(before: Sequence[str], now: Sequence[str], data: str) -> None:
    """A data set may have been moved, or edited since the run began."""
    if list(before) != list(now):
        other = f"{len(now)} classes instead of {len(before)}"
        if len(before) == len(now):
            other = next(f"{new!r} instead of {old!r}" for old, new in zip(before, now, strict=True) if old != new)
        fix = "name the data set the run was started with, or start a new run with --weights last.pt"
        raise UserError(f"the data set has other classes than the run: {other}", where=data, fix=fix)


def other_images(before: int | None, now: int, data: str) -> list[str]:
    """A warning if the number of images has changed; older checkpoints do not know it."""
    if before in (None, now):
        return []
    words = f"has {now} images to train on, the run began with {before}: it continues, but not to the same weights"
    return [f"warning: --data {data} {words}"]


def _plain(value: Any) -> Any:
    """Checkpoints keep lists where settings have tuples."""
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def to_yaml(config: Settings, path: str | Path) -> None:
    """Written whole or not at all."""
    try:
        write_whole(Path(path), as_text(config).encode())
    except OSError as error:
        what = f"the settings could not be written: {error.strerror or error}"
        raise UserError(what, where=path, fix="check permissions and that the disk has room") from error


def as_text(config: Settings) -> str:
    return dump_yaml(plain_values(config))


def from_yaml(config_class: type[Config], path: str | Path) -> Config:
    """Settings the file does not name have their defaults; names it should not have are refused."""
    file = read_yaml(Path(path))
    for key, value in file.values.items():
        try:
            resolve(config_class, key, value)
        except UserError as error:
            raise UserError(error.what, where=file.where, line=file.line(str(key)), fix=error.fix) from None
    try:
        return from_settings(config_class, file.values)
    except UserError as error:  # settings that do not go together
        raise UserError(error.what, where=file.where, fix=error.fix) from None
