"""The command that repeats a run: its settings as flags, those left away that are what they would be anyway."""

import shlex
from typing import Any

from yolofast.config.flags import shown
from yolofast.config.settings import Setting, is_switch, settings_of
from yolofast.config.train import TrainConfig

_NOT_OF_THE_RUN = {"resume", "explain", "exist_ok"}
_ALWAYS = ("data", "cfg", "seed")
"""Said even where they are the defaults: a command without any setting would be the demonstration."""


def repeat_command(config: TrainConfig) -> str:
    """For `yolofast train`, or for the drop-in script if the run was of that kind."""
    defaults = TrainConfig.published() if config.faithful else TrainConfig()
    words = ["python", "train.py"] if config.faithful else ["yolofast", "train"]
    for name, declared in settings_of(TrainConfig).items():
        value = getattr(config, name)
        if name not in _NOT_OF_THE_RUN and (value != getattr(defaults, name) or name in _ALWAYS):
            words += _flag(name, declared, value)
    return shlex.join(words)


def _flag(name: str, declared: Setting, value: Any) -> list[str]:
    for flag, meaning in declared.shortcuts.items():
        if value == meaning and type(value) is type(meaning) and isinstance(value, bool):
            return [flag]
    if is_switch(TrainConfig, name):
        return [declared.flag] if value else []
    if value is None or value == ():
        return []  # no flag says that; a default that is something has no such value
    if value is True or value == declared.bare:
        return [declared.flag]
    if isinstance(value, tuple):
        return [declared.flag, *map(str, value)]
    return [declared.flag, shown(value)] if not str(value).startswith("-") else [f"{declared.flag}={value}"]
