"""The files that settings name, for a run that goes on in another folder or after some of them have gone.

What a run keeps of itself names files by absolute paths, so that `--resume` finds them from anywhere. Names of packaged
files and of the built-in data set stay as they are: they mean the same everywhere.
"""

import dataclasses
import os
from typing import Any

from yolofast.config.builtin_data import BUILTIN_DATA
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.resources import find_resource

_KINDS = {
    "data": "data", "hyp": "hyp", "recipe": "recipe", "cfg": "cfg", "head_config": "heads",
    "head_params": "head_params", "plan": "plan", "weights": "",
}  # fmt: skip
"""Settings that name a file, and where its short names are looked up; weights have none."""


def with_lasting_names(config: TrainConfig) -> TrainConfig:
    """As a run keeps it."""
    changes: dict[str, Any] = {name: _lasting(getattr(config, name)) for name in _KINDS}
    return dataclasses.replace(config, **changes)


def kept_config(config: TrainConfig) -> dict[str, Any]:
    """The same as plain values."""
    values = dataclasses.asdict(with_lasting_names(config))
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def names_a_file(setting: str) -> bool:
    return setting in _KINDS


def is_same_file(given: str, kept: str) -> bool:
    """Whether what was typed now is what was kept when the run began, from the same folder or not."""
    return given == kept or os.path.abspath(given) == kept


def is_gone(config: TrainConfig, setting: str) -> bool:
    """Whether a file that the settings name cannot be found any more."""
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


def _lasting(name: str) -> str:
    return os.path.abspath(name) if name and _is_on_disk(name) else name


def _is_on_disk(name: str) -> bool:
    """A folder counts only as a data set: another one of that name hides nothing that is packaged."""
    return os.path.isfile(name) or os.path.isfile(os.path.join(name, "data.yaml"))
