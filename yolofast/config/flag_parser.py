"""A parser of flags that forgives spelling and explains itself.

`--close_mosaic` is `--close-mosaic`, and a flag may be cut short as long as it is clear which is meant. What was clear
among the flags of the published script stays so, whatever flags were added since: `--p` is `--project`. argparse alone
would call such prefixes ambiguous.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from yolofast.config.flags import DEFAULTS, add_flags
from yolofast.config.run import RunConfig
from yolofast.config.setting import settings_of
from yolofast.errors import nearest

Config = TypeVar("Config", bound=RunConfig)
_EXIT_BAD_INPUT = 2


class FlagParser(argparse.ArgumentParser):
    """Spelling is forgiven for the flags of `add_flags`; messages are one line and a fix, without a usage dump."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        defaults = self.get_default(DEFAULTS)
        if isinstance(defaults, RunConfig):
            words = with_full_flags(words, type(defaults))
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        if wrong := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            message += nearest(wrong[1], re.findall(r"[\w-]+", wrong[2]))
        command = self.prog.partition(" --")[0]  # flags may be those in the value of a flag, as of --against
        self.exit(_EXIT_BAD_INPUT, f"{self.prog}: error: {message}\n  fix: see {command} --help\n")


def parse_flags(config_class: type[Config], defaults: Config, argv: Sequence[str], prog: str) -> argparse.Namespace:
    """For a script of one command; `from_args` turns the result into a configuration. Mistakes exit with code 2."""
    parser = FlagParser(prog=prog)
    add_flags(parser, config_class, defaults)
    namespace: argparse.Namespace
    namespace, unknown = parser.parse_known_args(argv)
    if unknown:
        word = unknown[0].split("=")[0]
        parser.error(f"unknown argument {word}{nearest(word, [one.flag for one in _spellings(config_class)])}")
    return namespace


def with_full_flags(words: Sequence[str], config_class: type[RunConfig]) -> list[str]:
    """The command line with every flag in a spelling argparse knows; what cannot be told is left for it to refuse."""
    full: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return full + list(words[place:])
        flag, equals, value = word.partition("=")
        full.append(_full_flag(flag, config_class) + equals + value)
    return full


@dataclass(frozen=True)
class _Spelling:
    flag: str
    meaning: tuple[str, Any]
    """The field, and the value of a shortcut."""
    published: bool

    @property
    def even(self) -> str:
        return self.flag.replace("_", "-")


def _spellings(config_class: type[RunConfig]) -> tuple[_Spelling, ...]:
    found = [_Spelling("--help", ("help", None), True)]
    for name, declared in settings_of(config_class).items():
        meanings = dict.fromkeys(declared.flags, None) | dict(declared.shortcuts)
        found += [_Spelling(flag, (name, value), flag == declared.published_flag) for flag, value in meanings.items()]
    return tuple(found)


def _full_flag(word: str, config_class: type[RunConfig]) -> str:
    known = _spellings(config_class)
    if len(word) < 3 or not word.startswith("--") or word in [one.flag for one in known]:
        return word
    even = word.replace("_", "-")
    same = [one for one in known if one.even == even]
    fitting = same or [one for one in known if one.even.startswith(even)]
    published = [one for one in fitting if one.published]
    if len(published) == 1:
        return published[0].flag
    return fitting[0].flag if len({one.meaning for one in fitting}) == 1 else word
