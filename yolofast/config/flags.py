"""Configurations as flags of argparse, and back.

Flags that are not given leave no trace in the namespace, so that a resumed run knows what was really asked for; the
defaults travel beside them.
"""

import argparse
from typing import Any, TypeVar

from yolofast.config.from_settings import from_settings
from yolofast.config.run import SECTIONS, RunConfig
from yolofast.config.setting import WITHOUT_EFFECT, Setting, settings_of
from yolofast.config.values import choices, element, is_switch, takes_many

Config = TypeVar("Config", bound=RunConfig)
DEFAULTS = "config_defaults"
"""The entry of a namespace that holds the configuration which flags change."""
_METAVARS = {int: "N", float: "X", str: "TEXT"}


def add_flags(parser: argparse.ArgumentParser, config_class: type[Config], defaults: Config) -> None:
    """A flag for every setting, in the sections of the documentation."""
    parser.usage = parser.usage or "%(prog)s [flags]"
    parser.set_defaults(**{DEFAULTS: defaults})
    for section in SECTIONS:
        names = [name for name, declared in settings_of(config_class).items() if declared.section == section]
        group = parser.add_argument_group(section) if names else parser
        for name in names:
            _add_flag(group, config_class, name, getattr(defaults, name))


def given_settings(config_class: type[RunConfig], namespace: argparse.Namespace) -> dict[str, Any]:
    """What was really asked for, by the names of the fields."""
    return {name: getattr(namespace, name) for name in settings_of(config_class) if hasattr(namespace, name)}


def from_args(config_class: type[Config], namespace: argparse.Namespace) -> Config:
    """The defaults given to `add_flags`, changed by the flags."""
    defaults: Config = getattr(namespace, DEFAULTS)
    given = given_settings(config_class, namespace)
    longer = {
        name: [*getattr(defaults, name), *given[name]] for name in given if settings_of(config_class)[name].adds_up
    }
    return from_settings(config_class, given | longer, defaults)


def _add_flag(group: argparse._ActionsContainer, config_class: type[RunConfig], name: str, default: Any) -> None:
    declared = settings_of(config_class)[name]
    if declared.shortcuts:  # two ways to say different things about one setting contradict each other
        group = group.add_mutually_exclusive_group()
    shared: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS}
    text = _help(name, declared, default).replace("%", "%%")
    if is_switch(config_class, name):
        group.add_argument(*declared.flags, action="store_const", const=True, help=text, **shared)
    else:
        group.add_argument(*declared.flags, help=text, **_argument(config_class, name, declared), **shared)
    for flag, value in declared.shortcuts.items():
        meaning = f"not {declared.flag}" if value is False else f"{declared.flag} {value}"
        group.add_argument(flag, action="store_const", const=value, help=meaning, **shared)


def _argument(config_class: type[RunConfig], name: str, declared: Setting) -> dict[str, Any]:
    details: dict[str, Any] = {"type": element(config_class, name)}
    if words := choices(config_class, name):
        details["choices"] = words
    else:
        details["metavar"] = declared.metavar or _METAVARS[details["type"]]
    if declared.bare is not None:
        details |= {"nargs": "?", "const": declared.bare}
    elif takes_many(config_class, name):
        details |= {"nargs": "+", "action": "extend" if declared.adds_up else "store"}
    return details


def _help(name: str, declared: Setting, default: Any) -> str:
    notes = []
    if name in WITHOUT_EFFECT:
        notes.append("accepted, no effect")
    if default is not False and shown(default):
        notes.append(f"default: {shown(default)}")
    return declared.help + (f" ({'; '.join(notes)})" if notes else "")


def shown(value: Any) -> str:
    """A value as it is typed; switches in words; nothing for nothing."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return " ".join(map(str, value)) if isinstance(value, tuple) else "" if value is None else str(value)
