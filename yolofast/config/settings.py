"""How a configuration is declared: a dataclass of settings, each with all that flags, messages and documentation need.

A field's type says what its values are; everything else stands in its `Setting`, in the dataclass field's metadata. So
a flag is added, renamed or documented in one place.

Types are compared strictly – neither `True` nor `"3"` is a number – because a value that is silently converted is a
mistake nobody sees. Only what means the same in Python and YAML is brought into form: a list is a tuple, a single value
a tuple of one, a path its text.
"""

import dataclasses
import math
import os
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, Union

from yolofast.errors import UserError, nearest, shorten

REQUIRED: Any = dataclasses.MISSING
"""The default of a setting that has none: the user must give it."""
_KEY = "setting"
_AS_DEFAULT = object()
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_PLURALS: dict[Any, str] = {
    int: "whole numbers", float: "numbers", str: "words", int | str: "whole numbers, or names",
}  # fmt: skip
_SETTINGS: dict[type[Any], Mapping[str, "Setting"]] = {}
_HINTS: dict[type[Any], dict[str, Any]] = {}
"""Types by class and field: finding them takes milliseconds, and every value is checked."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    flags: tuple[str, ...]
    """Spellings; the first is the one messages and documentation use. One without dashes is a positional argument."""
    help: str
    """`{default}` is where it says the default; else that is added at its end."""
    section: str | None = None
    """The heading below which it stands; a command of a few flags has none."""
    published: Any
    """What the published script does if the flag is not given."""
    published_flag: str | None = None
    """The flag of the published script that sets this, if it has one."""
    shortcuts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further flags, without an argument, and the value each stands for: `--adam`."""
    bare: Any = None
    """The value of the flag when nothing follows it; None where something must."""
    metavar: str | None = None
    among: Mapping[str, object] | None = None
    """Of a text: the table whose keys it may be."""
    commas: bool = False
    """Whether the values of a tuple are one word, with commas between: `10,50`."""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    special: tuple[int, ...] = ()
    """Numbers allowed outside the range: -1 for `find it yourself`."""
    counts: tuple[int, int] = (1, 10_000)
    """Of a tuple: how many values it may have."""
    adds_up: bool = False
    """Whether a flag that is given again adds values to the earlier ones, instead of taking their place."""
    changes_on_resume: bool = False
    """Whether a resumed run may have another value: it must not change what is learnt."""
    without_effect: bool = False
    """Accepted so that old commands run; its help says why there is nothing to do."""

    @property
    def flag(self) -> str:
        return self.flags[0]

    @property
    def takes_pairs(self) -> bool:
        """Whether its values are `KEY=VALUE`."""
        return "=" in (self.metavar or "")

    @property
    def positional(self) -> bool:
        return not self.flag.startswith("-")


def setting(default: Any, *flags: str, published: Any = _AS_DEFAULT, yolov7: bool | str = False, **details: Any) -> Any:
    """A dataclass field. `yolov7`: the published script has the first flag, or the one named."""
    details["published"] = default if published is _AS_DEFAULT else published
    if yolov7:
        details["published_flag"] = yolov7 if isinstance(yolov7, str) else flags[0]
    details["shortcuts"] = dict(details.get("shortcuts", {})) | _off_switch(default, flags, details)
    return dataclasses.field(default=default, metadata={_KEY: Setting(flags=flags, **details)})


def _off_switch(default: Any, flags: tuple[str, ...], details: Mapping[str, Any]) -> dict[str, bool]:
    """`--no-x`, for what is on by default somewhere and has no name for being off."""
    on_somewhere = default is True or details["published"] is True
    named = False in details.get("shortcuts", {}).values()
    return {flags[0].replace("--", "--no-", 1): False} if on_somewhere and not named else {}


def settings_of(config_class: type[Any]) -> Mapping[str, Setting]:
    """By field name, in the order of the fields. Kept: every value that is checked asks for its own."""
    if config_class not in _SETTINGS:
        _SETTINGS[config_class] = {field.name: field.metadata[_KEY] for field in dataclasses.fields(config_class)}
    return _SETTINGS[config_class]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one command; every value is checked when it is made."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check_value(type(self), field.name, getattr(self, field.name))
        self.check_together()

    @classmethod
    def published(cls) -> Self:
        """What the published script does without flags."""
        return cls(**{name: declared.published for name, declared in settings_of(cls).items()})

    def check_together(self) -> None:
        """Settings that exclude or need one another; raises `UserError`."""


def kinds(config_class: type[Any], name: str) -> tuple[Any, ...]:
    """The types a field may have: one, or the members of a union."""
    if config_class not in _HINTS:
        _HINTS[config_class] = typing.get_type_hints(config_class)
    hint = _HINTS[config_class][name]
    return typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)


def choices(config_class: type[Any], name: str) -> tuple[str, ...]:
    """The words a field may have; empty if it takes anything."""
    table = settings_of(config_class)[name].among
    if table is not None:
        return tuple(table)
    return tuple(word for kind in kinds(config_class, name) if _is_literal(kind) for word in typing.get_args(kind))


def element(config_class: type[Any], name: str) -> Callable[[str], Any]:
    """What one word on the command line is turned into."""
    kind = next(kind for kind in kinds(config_class, name) if kind not in (bool, types.NoneType))
    if _is_literal(kind):
        return str
    found: type[Any] = typing.get_args(kind)[0] if is_many(kind) else kind
    return found if isinstance(found, type) else _number_or_name


def _number_or_name(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def is_many(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple


def takes_many(config_class: type[Any], name: str) -> bool:
    return any(is_many(kind) for kind in kinds(config_class, name))


def is_switch(config_class: type[Any], name: str) -> bool:
    return kinds(config_class, name) == (bool,)


def in_form(config_class: type[Any], name: str, value: Any) -> Any:
    """The value as the field wants it."""
    if value is False and "off" in choices(config_class, name):
        return "off"  # which YAML reads as a no
    if takes_many(config_class, name) and value is not None:
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(_text_of_path(one) for one in values)
    return _text_of_path(value)


def check_value(config_class: type[Any], name: str, value: Any) -> None:
    declared, values = settings_of(config_class)[name], value if isinstance(value, tuple) else (value,)
    is_right = (
        any(_suits(kind, value) for kind in kinds(config_class, name))
        and (declared.among is None or not isinstance(value, str) or value in declared.among)
        and (not isinstance(value, tuple) or declared.counts[0] <= len(value) <= declared.counts[1])
        and all(_in_range(declared, one) for one in values if isinstance(one, int | float))
    )
    if not is_right:
        shown = " ".join(map(str, value)) if isinstance(value, tuple) and value and len(value) < 8 else shorten(value)
        hint = nearest(value, choices(config_class, name)) if isinstance(value, str) else ""
        raise UserError(f"{declared.flag} is {shown}{hint}", fix=f"give {_description(config_class, name)}")


def _suits(kind: Any, value: Any) -> bool:
    if is_many(kind):
        return isinstance(value, tuple) and all(_suits(typing.get_args(kind)[0], one) for one in value)
    if _is_literal(kind):
        return isinstance(value, str) and value in typing.get_args(kind)
    if isinstance(kind, types.UnionType):
        return any(_suits(member, value) for member in typing.get_args(kind))
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float) and abs(value) < math.inf
    if kind is str:
        return isinstance(value, str) and "\0" not in value
    return isinstance(value, kind)


def _in_range(declared: Setting, value: float) -> bool:
    return (
        isinstance(value, bool)
        or value in declared.special
        or (
            (declared.least is None or value >= declared.least)
            and (declared.above is None or value > declared.above)
            and (declared.most is None or value <= declared.most)
        )
    )


def _description(config_class: type[Any], name: str) -> str:
    """What a setting takes, in words: `a whole number of at least 1, or -1`."""
    declared = settings_of(config_class)[name]
    taken = kinds(config_class, name)
    words = " or ".join(_described(kind, declared) for kind in taken if kind is not types.NoneType)
    others = [*map(str, declared.special), *(["nothing"] if types.NoneType in taken else [])]
    return words + _range(declared) + "".join(f", or {other}" for other in others)


def _range(declared: Setting) -> str:
    start = f" above {declared.above:g}" if declared.above is not None else ""
    if declared.least is not None:
        start = f" of at least {declared.least:g}"
    return start + (f"{' and' if start else ''} at most {declared.most:g}" if declared.most is not None else "")


def _described(kind: Any, declared: Setting) -> str:
    if is_many(kind):
        low, high = declared.counts
        return f"{low} {f'to {high}' if high < 100 else 'or more'} {_PLURALS[typing.get_args(kind)[0]]}"
    if kind is str and declared.among is not None:
        return "one of " + ", ".join(declared.among)
    return "one of " + ", ".join(typing.get_args(kind)) if _is_literal(kind) else _NAMES[kind]


def _is_literal(kind: Any) -> bool:
    return typing.get_origin(kind) is Literal


def _text_of_path(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value
