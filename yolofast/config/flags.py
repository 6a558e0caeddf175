"""Configurations made from names and values: flags of a command line, or what Python callers and files give.

Flags that are not given are absent from argparse's namespace, so that a resumed run knows what the user typed; the
defaults are an entry of their own.

Spelling is forgiven: `--close_mosaic` is `--close-mosaic`, and a flag may be abbreviated if it is unambiguous. What was
unambiguous among the flags of the published script stays so: `--p` is `--project`. argparse alone would refuse it.
`name=value` is `--name value`, as programs that start other programs write it.
"""

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from yolofast.config.section import HEADINGS
from yolofast.config.settings import (
    REQUIRED,
    Setting,
    Settings,
    check_value,
    choices,
    element,
    in_form,
    is_switch,
    settings_of,
    takes_many,
)
from yolofast.errors import UserError, nearest, shorten
from yolofast.exit_codes import EXIT_BAD_INPUT

Config = TypeVar("Config", bound=Settings)
DEFAULTS = "config_defaults"
"""The entry of a namespace that holds, for each class of configuration, the one which flags change; None: the usual."""
_METAVARS = {int: "N", float: "X", str: "TEXT"}
_KEY = re.compile(r"[A-Za-z_][\w-]*")
_TRUTH = {
    **dict.fromkeys(("true", "yes", "on", "1"), True), **dict.fromkeys(("false", "no", "off", "0"), False),
}  # fmt: skip


def from_settings(config_class: type[Config], values: Mapping[str, Any], base: Config | None = None) -> Config:
    """`base`, by default `config_class()`, with these values changed.

    Names may be those of fields or of any flag (`imgsz`, `batch`, `cos_lr`); unknown ones are refused with the nearest.
    """
    changes: dict[str, Any] = {}
    for key, value in values.items():
        name, formed = resolve(config_class, key, value)
        if name in changes:
            raise UserError(f"{key} and another name of {name} are both given", fix="give one of them")
        changes[name] = formed
    return config_class(**changes) if base is None else dataclasses.replace(base, **changes)


def resolve(config_class: type[Settings], key: str, value: Any) -> tuple[str, Any]:
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


def _names(config_class: type[Settings]) -> tuple[dict[str, str], dict[str, tuple[str, Any]]]:
    """Every name a field goes by; and of every shortcut the field and the value it stands for."""
    names: dict[str, str] = {}
    shortcuts: dict[str, tuple[str, Any]] = {}
    for name, declared in settings_of(config_class).items():
        names |= {python_name(flag): name for flag in declared.flags} | {name: name}
        shortcuts |= {python_name(flag): (name, value) for flag, value in declared.shortcuts.items()}
    return names, shortcuts


def field_name(config_class: type[Settings], key: str) -> str:
    """Of the field that a name means, which may be that of a flag; what is unknown stays as it is."""
    return _names(config_class)[0].get(key, key)


def python_name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def add_flags(parser: argparse.ArgumentParser, config_class: type[Config], defaults: Config | None = None) -> None:
    """A flag for every setting, in the sections of the documentation. A parser may have those of several classes."""
    parser.set_defaults(**{DEFAULTS: {**(parser.get_default(DEFAULTS) or {}), config_class: defaults}})
    for section in (None, *HEADINGS):
        names = [name for name, declared in settings_of(config_class).items() if declared.section == section]
        group: argparse._ActionsContainer = parser
        if names and section:
            parser.usage = "%(prog)s [flags]"  # they would fill a page
            group = parser.add_argument_group(section)
        for name in names:
            _add_flag(group, config_class, name, _default(config_class, defaults, name))


def given_settings(config_class: type[Settings], namespace: argparse.Namespace) -> dict[str, Any]:
    """The settings that the user typed, by the names of the fields."""
    return {name: getattr(namespace, name) for name in settings_of(config_class) if hasattr(namespace, name)}


def from_args(config_class: type[Config], namespace: argparse.Namespace) -> Config:
    """The defaults given to `add_flags`, changed by the flags."""
    defaults: Config | None = getattr(namespace, DEFAULTS)[config_class]
    given = given_settings(config_class, namespace)
    for name in given:
        if settings_of(config_class)[name].adds_up:
            given[name] = [*_default(config_class, defaults, name), *given[name]]
    return from_settings(config_class, given, defaults)


def _default(config_class: type[Config], defaults: Config | None, name: str) -> Any:
    return getattr(config_class if defaults is None else defaults, name, REQUIRED)


def _add_flag(group: argparse._ActionsContainer, config_class: type[Settings], name: str, default: Any) -> None:
    declared = settings_of(config_class)[name]
    if declared.shortcuts:  # two flags of one setting contradict each other
        group = group.add_mutually_exclusive_group()
    shared: dict[str, Any] = {"default": argparse.SUPPRESS, "help": help_text(declared, default).replace("%", "%%")}
    if declared.positional:
        optional: dict[str, Any] = {} if default is REQUIRED else {"nargs": "?"}
        group.add_argument(name, **_argument(config_class, name, declared), **optional, **shared)
        return
    shared |= {"dest": name, "required": default is REQUIRED}
    if is_switch(config_class, name):
        group.add_argument(*declared.flags, action="store_const", const=True, **shared)
    else:
        group.add_argument(*declared.flags, **_argument(config_class, name, declared), **shared)
    for flag, value in declared.shortcuts.items():
        meaning = f"not {declared.flag}" if value is False else f"{declared.flag} {value}"
        group.add_argument(flag, action="store_const", const=value, **{**shared, "help": meaning})


def _argument(config_class: type[Settings], name: str, declared: Setting) -> dict[str, Any]:
    """What argparse has to know of a word, or words, that follow a flag or stand alone."""
    word = element(config_class, name)
    details: dict[str, Any] = {"type": _parts(word) if declared.commas else word}
    if words := choices(config_class, name):
        details["choices"] = words
    elif declared.metavar or declared.section:
        details["metavar"] = declared.metavar or _METAVARS[details["type"]]
    if declared.bare is not None:
        details |= {"nargs": "?", "const": declared.bare}
    elif takes_many(config_class, name) and not declared.commas:
        details |= {"nargs": "+", "action": "extend" if declared.adds_up else "store"}
    return details


def _parts(word: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    def parts(text: str) -> tuple[Any, ...]:
        return tuple(word(part.strip()) for part in text.split(","))

    parts.__name__ = word.__name__  # argparse names it where a word is none
    return parts


def help_text(declared: Setting, default: Any) -> str:
    """What a flag means, whether it does anything, and its default."""
    notes = ["accepted, no effect"] if declared.without_effect else []
    if "{default}" in declared.help:
        return declared.help.replace("{default}", shown(default))
    if default is not False and default is not REQUIRED and shown(default):
        notes.append(f"default: {shown(default)}")
    return declared.help + (f" ({'; '.join(notes)})" if notes else "")


def shown(value: Any) -> str:
    """A value as it is typed; switches in words; nothing for nothing."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return " ".join(map(str, value)) if isinstance(value, tuple) else "" if value is None else str(value)


class FlagParser(argparse.ArgumentParser):
    """Spelling is forgiven for the flags of `add_flags`; messages are one line and a fix, without a usage dump."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        classes = tuple(self.get_default(DEFAULTS) or ())
        return super().parse_known_args(with_full_flags(words, *classes), namespace)

    def error(self, message: str) -> NoReturn:
        if wrong := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            message += nearest(wrong[1], re.findall(r"[\w-]+", wrong[2]))
        command, _, inside = self.prog.partition(" --")  # flags may be the value of a flag, as of --against
        program = self.prog if inside else command.split()[0]
        self.exit(EXIT_BAD_INPUT, f"{program}: error: {message}\n  fix: see {command} --help\n")

    def refuse_unknown(self, unknown: Sequence[str]) -> NoReturn:
        flag, _, value = unknown[0].partition("=")
        known = [option for action in self._actions for option in action.option_strings]
        meant = nearest(flag, known)
        if not meant and "--set" in known and flag.startswith("--"):
            meant = f"; a hyper-parameter is written {flag.removeprefix('--')}={value or 'VALUE'}"
        self.error(f"unknown argument {flag}{meant}")


def parse_flags(
    config_class: type[Config], defaults: Config | None, argv: Sequence[str], prog: str
) -> argparse.Namespace:
    """For a script of one command; `from_args` turns the result into a configuration. Mistakes exit with code 2."""
    parser = FlagParser(prog=prog)
    add_flags(parser, config_class, defaults)
    namespace: argparse.Namespace
    namespace, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.refuse_unknown(unknown)
    return namespace


def with_full_flags(words: Sequence[str], *classes: type[Settings]) -> list[str]:
    """The command line with every flag in a spelling argparse knows; what is unknown is left for it to refuse.

    `epochs=3` is `--epochs 3`. What no flag is called goes to `--set`, where a command has it: `lr0=0.001`.
    """
    full, pairs, rest = list[str](), list[str](), list[str]()
    known = [_spellings(one) for one in classes]
    kept, many = 0, False
    """How many of the next words are values, whatever they look like; or may be."""
    for place, word in enumerate(words):
        key, equals, value = word.partition("=")
        if word == "--":
            rest = list(words[place:])
            break
        if word.startswith("--"):
            flag = _full_flag(key, known)
            full += _switch(flag, value, classes) if equals else [flag]
            kept, many = (0, False) if equals else _values_kept(flag, classes)
        elif kept or not equals or not _KEY.fullmatch(key):
            full, kept = [*full, word], max(kept - 1, 0)
        elif (found := _declared(key, classes)) and found[2].positional:
            full.append(value)
        elif many and not _declared(f"--{key}".replace("_", "-"), classes):  # `--split train=0.7 val=0.3`
            full.append(word)
        elif _declared(flag := _full_flag(f"--{key}", known), classes):
            pairs += _pair(flag, value, classes)
        elif flag := next((one.flag for one in _all_settings(classes) if one.takes_pairs), ""):
            pairs += [flag, word]
        else:
            full.append(word)
    return full + pairs + rest  # a flag of many values would take a word that stands alone


def _all_settings(classes: Sequence[type[Settings]]) -> Iterator[Setting]:
    return (declared for one in classes for declared in settings_of(one).values())


def _declared(flag: str, classes: Sequence[type[Settings]]) -> tuple[type[Settings], str, Setting] | None:
    for one in reversed(classes):
        for name, declared in settings_of(one).items():
            if flag in declared.flags or flag in declared.shortcuts:
                return one, name, declared
    return None


def _values_kept(flag: str, classes: Sequence[type[Settings]]) -> tuple[int, bool]:
    """Words after a flag that are its values, even such as `epochs=3`; and whether more may be, of other names."""
    found = _declared(flag, classes)
    if found is None or flag in found[2].shortcuts or found[2].bare is not None or is_switch(*found[:2]):
        return 0, False
    if found[2].takes_pairs:
        return sys.maxsize, True
    many = takes_many(*found[:2]) and not found[2].commas
    return int(not many), many


def _pair(flag: str, value: str, classes: Sequence[type[Settings]]) -> list[str]:
    """The words of a flag that was given as `name=value`; several values as `320,640` or `[320, 640]`."""
    found = _declared(flag, classes)
    assert found is not None
    config_class, name, declared = found
    if flag in declared.flags and takes_many(config_class, name) and not declared.commas:
        listed = value if declared.takes_pairs else value.strip("[]()").replace(",", " ")
        return [flag, *listed.split()] if listed.strip() else [f"{flag}="]
    return _switch(flag, value, classes)


def _switch(flag: str, value: str, classes: Sequence[type[Settings]]) -> list[str]:
    """`--nosave=true` is `--nosave`, and what is false is left out, or the flag that says so."""
    found = _declared(flag, classes)
    meant = _TRUTH.get(value.lower())
    if found is None or meant is None:
        return [f"{flag}={value}"]
    config_class, name, declared = found
    if flag not in declared.shortcuts and declared.bare is not True and not is_switch(config_class, name):
        return [f"{flag}={value}"]
    if meant:
        return [flag]
    return [off for off, stands_for in declared.shortcuts.items() if stands_for is False and off != flag][:1]


@dataclass(frozen=True)
class _Spelling:
    flag: str
    meaning: tuple[str, Any]
    """The field, and the value of a shortcut."""
    published: bool

    @property
    def even(self) -> str:
        return self.flag.replace("_", "-")


def _spellings(config_class: type[Settings]) -> tuple[_Spelling, ...]:
    found = [_Spelling("--help", ("help", None), True)]
    for name, declared in settings_of(config_class).items():
        meanings = dict.fromkeys(declared.flags, None) | dict(declared.shortcuts)
        found += [_Spelling(flag, (name, value), flag == declared.published_flag) for flag, value in meanings.items()]
    return tuple(found)


def _full_flag(word: str, known: Sequence[Sequence[_Spelling]]) -> str:
    if len(word) < 3 or not word.startswith("--") or any(word == one.flag for group in known for one in group):
        return word
    # The flags of `train` mean the same in `profile`, abbreviated or not: they come first.
    for group in reversed(known):
        if full := _fitting(word.replace("_", "-"), group):
            return full[0].flag if len({one.meaning for one in full}) == 1 else word
    return word


def _fitting(even: str, known: Sequence[_Spelling]) -> list[_Spelling]:
    """The flags that a word may mean; one of the published script comes before others."""
    same = [one for one in known if one.even == even]
    fitting = same or [one for one in known if one.even.startswith(even)]
    published = [one for one in fitting if one.published]
    return published if len(published) == 1 else fitting
