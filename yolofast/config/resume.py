"""A run that goes on has the settings it was started with, but for those that do not change what is learnt."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from yolofast.config.flags import shown
from yolofast.config.named_files import is_gone, is_same_file, names_a_file
from yolofast.config.settings import in_form, settings_of
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import ENDS
from yolofast.errors import UserError, shorten


def resumed(stored: TrainConfig, given: Mapping[str, Any]) -> TrainConfig:
    """`stored` with what `given_settings` found on the command line; saying the same again is no change."""
    changes = {name: in_form(TrainConfig, name, value) for name, value in given.items()}
    if changes.get("batch_size") == -1 or stored.reduce_batch:
        changes.pop("batch_size", None)  # the run has found its own
    for name in [name for name in changes if names_a_file(name) and is_same_file(changes[name], getattr(stored, name))]:
        del changes[name]
    for name, value in changes.items():
        declared, before = settings_of(TrainConfig)[name], getattr(stored, name)
        moved = names_a_file(name) and is_gone(stored, name)  # its content is compared when it is read
        if value != before and not declared.changes_on_resume and not moved:
            what = f"{declared.flag} {shown(value)} with --resume: the run was started with {shown(before) or 'none'}"
            raise UserError(what, fix=f"leave {declared.flag} away, or start a new run with --weights last.pt")
    config = dataclasses.replace(stored, **changes)
    if config.epochs < stored.epochs:
        what = f"--epochs {config.epochs} with --resume: the run was planned for {stored.epochs}"
        raise UserError(what, fix=f"give at least {stored.epochs}, or leave it away")
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
    follows = {"model", "epochs", "batch_size"} | (set(ENDS) if before.get("epochs") != now.get("epochs") else set())
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
    """What there is to tell if images have come or gone; older checkpoints do not know how many there were."""
    if before in (None, now):
        return []
    words = f"has {now} images to train on, the run began with {before}: it goes on, but not to the same weights"
    return [f"warning: --data {data} {words}"]


def _plain(value: Any) -> Any:
    """Checkpoints keep lists where settings have tuples."""
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
