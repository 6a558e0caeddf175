"""Whether a value suits a setting, by the type of its field and the range declared for it.

Types are compared strictly – `True` is no number, `"3"` neither – because a value that is silently converted is a
mistake nobody sees. Only what means the same in Python and YAML is brought into form: a list is a tuple, a single value
a tuple of one, a path its text.
"""

import math
import os
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, Union

from yolofast.config.setting import Setting, settings_of
from yolofast.errors import UserError, nearest, shorten

_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text", types.NoneType: "nothing"}
_PLURALS: dict[Any, str] = {
    int: "whole numbers", float: "numbers", str: "words", int | str: "whole numbers, or names",
}  # fmt: skip


_HINTS: dict[type[Any], dict[str, Any]] = {}
"""Types by class and field: finding them takes milliseconds, and every value is checked."""


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
    return found if isinstance(found, type) else number_or_name


def number_or_name(text: str) -> int | str:
    """A word that may be either."""
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
    if takes_many(config_class, name) and value is not None:
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(_text_of_path(one) for one in values)
    return _text_of_path(value)


def check_value(config_class: type[Any], name: str, value: Any) -> None:
    declared = settings_of(config_class)[name]
    if not any(_suits(kind, value) for kind in kinds(config_class, name)):
        raise _fault(config_class, name, value)
    if declared.among is not None and isinstance(value, str) and value not in declared.among:
        raise _fault(config_class, name, value)
    if isinstance(value, tuple) and not declared.counts[0] <= len(value) <= declared.counts[1]:
        raise _fault(config_class, name, value)
    for one in value if isinstance(value, tuple) else (value,):
        if isinstance(one, int | float) and not isinstance(one, bool) and not _in_range(declared, one):
            raise _fault(config_class, name, value)


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
        return isinstance(value, int | float) and math.isfinite(value)
    if kind is str:
        return isinstance(value, str) and "\0" not in value
    return isinstance(value, kind)


def _in_range(declared: Setting, value: float) -> bool:
    if value in declared.special:
        return True
    return (
        (declared.least is None or value >= declared.least)
        and (declared.above is None or value > declared.above)
        and (declared.most is None or value <= declared.most)
    )


def _fault(config_class: type[Any], name: str, value: Any) -> UserError:
    declared = settings_of(config_class)[name]
    shown = " ".join(map(str, value)) if isinstance(value, tuple) and value and len(value) < 8 else shorten(value)
    hint = nearest(value, choices(config_class, name)) if isinstance(value, str) else ""
    return UserError(f"{declared.flag} is {shown}{hint}", fix=f"give {_description(config_class, name)}")


def _description(config_class: type[Any], name: str) -> str:
    """What a setting takes, in words: `a whole number of at least 1, or -1`."""
    declared = settings_of(config_class)[name]
    words = " or ".join(_described(kind, declared) for kind in kinds(config_class, name))
    return words + _range(declared) + "".join(f", or {number}" for number in declared.special)


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
