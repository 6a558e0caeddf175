"""A configuration from names and values, as Python callers and files give them.

Names may be those of fields or of any flag (`imgsz`, `batch`, `cos_lr`); unknown ones are refused with the nearest.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from yolofast.config.run import RunConfig
from yolofast.config.setting import settings_of
from yolofast.config.values import check_value, in_form
from yolofast.errors import UserError, nearest, shorten

Config = TypeVar("Config", bound=RunConfig)


def from_settings(config_class: type[Config], values: Mapping[str, Any], base: Config | None = None) -> Config:
    """`base`, by default `config_class()`, with these values changed."""
    changes: dict[str, Any] = {}
    for key, value in values.items():
        name, formed = resolve(config_class, key, value)
        if name in changes:
            raise UserError(f"{key} and another name of {name} are both given", fix="give one of them")
        changes[name] = formed
    return dataclasses.replace(config_class() if base is None else base, **changes)


def resolve(config_class: type[RunConfig], key: str, value: Any) -> tuple[str, Any]:
    """The field a name means, and the value in the field's form; raises `UserError` if either is wrong."""
    names, shortcuts = _names(config_class)
    if key in shortcuts:
        if value is not True:
            name = shortcuts[key][0]
            raise UserError(f"{key} is {shorten(value)}", fix=f"give {key} as true, or set {name} itself")
        return shortcuts[key]
    if key not in names:
        known = [*settings_of(config_class), *names, *shortcuts]
        raise UserError(f"there is no setting {shorten(key)}{nearest(str(key), known)}", fix="docs/flags.md lists them")
    formed = in_form(config_class, names[key], value)
    check_value(config_class, names[key], formed)
    return names[key], formed


def _names(config_class: type[RunConfig]) -> tuple[dict[str, str], dict[str, tuple[str, Any]]]:
    """Every name a field goes by; and of every shortcut the field and the value it stands for."""
    names: dict[str, str] = {}
    shortcuts: dict[str, tuple[str, Any]] = {}
    for name, declared in settings_of(config_class).items():
        names |= {_python_name(flag): name for flag in declared.flags} | {name: name}
        shortcuts |= {_python_name(flag): (name, value) for flag, value in declared.shortcuts.items()}
    return names, shortcuts


def _python_name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
