"""Files that anybody may have written, read safely: plain files only, and YAML with the line of every entry.

A pipe or a device is an error instead of an endless wait.

Numbers may be written `1e-5`, as in YAML 1.2. The library follows YAML 1.1, where that is text unless it has a dot and
a sign (`1.0e-5`). What is written here puts such text in quotes.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from yolofast.errors import UserError, shorten
from yolofast.files.budget import Budget, open_regular

# A model or data file is a few kilobytes; anything far beyond is not one, and parsing it would only waste time.
_MAX_BYTES = 8 * 2**20
_WITH_EXPONENT = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)[eE][-+]?[0-9]+$")
_DEEP = 100
_MOST_WRITTEN, _LONGEST_EXPLAINED = 50_000, 100_000
"""Keys and values, for a third of a second, and commands read a file several times; letters, for half a second."""
_DIRECTIVE, _MOST_DIRECTIVES = "%TAG", 100
"""Abbreviations for tags: libyaml compares each with all others."""
_LONGEST_SMALL_KEY, _MOST_LARGE_KEYS = 6, 100
"""Digits of a number that is a key; others may be chosen so that a dictionary searches for each among all."""
_MOST_VALUES = 1_000_000
_MOST_BITS = 4096
"""About 1,200 digits."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """By libyaml where it is there: ten times as fast."""


class _ExplainingLoader(yaml.SafeLoader):
    """What is wrong with a file is said in this one's words, with or without libyaml."""


class _Dumper(yaml.SafeDumper):
    pass


def _whole(loader: Any, node: yaml.ScalarNode) -> int:
    """Python reads hexadecimal ones of any length, and refuses to print them where nobody expects it.

    Minutes and seconds (`1:30:00`) are multiplied for each `:`, so their number is too long before it is read.
    """
    value: int = loader.construct_yaml_int(node) if len(node.value) <= _MOST_BITS else 2**_MOST_BITS
    if value.bit_length() > _MOST_BITS:
        raise ValueError("a number of thousands of digits")
    return value


def _as_written(loader: Any, node: yaml.ScalarNode) -> str:
    """No setting is a moment, and making one of `2001-12-14` takes as long as all the rest of reading it."""
    return str(loader.construct_scalar(node))


for _reading in (_Loader, _ExplainingLoader):
    _reading.add_constructor("tag:yaml.org,2002:int", _whole)
    _reading.add_constructor("tag:yaml.org,2002:timestamp", _as_written)
for _kind in (_Loader, _ExplainingLoader, _Dumper):
    _kind.add_implicit_resolver("tag:yaml.org,2002:float", _WITH_EXPONENT, list("-+.0123456789"))


@dataclass(frozen=True)
class YamlFile:
    """A mapping read from YAML: plain values, and the place of each."""

    where: str | None
    values: dict[Any, Any]
    _root: yaml.Node | None = None
    _entries: dict[int, dict[str, yaml.Node]] = field(default_factory=dict, repr=False, compare=False)
    """Of mappings, by the node's identity: thousands of names are each looked up."""

    def line(self, *keys: str | int) -> int | None:
        """The line of the entry reached by following `keys`, or of the last one that exists; None if unknown."""
        node = self._root
        for key in keys:
            child = self._child(node, key)
            if child is None:
                break
            node = child
        return None if node is None else node.start_mark.line + 1

    def line_of_key(self, key: str) -> int | None:
        """That of a key at the top, whose value may begin further down."""
        pairs = self._root.value if isinstance(self._root, yaml.MappingNode) else ()
        return next((name.start_mark.line + 1 for name, _ in pairs if name.value == key), None)

    def as_name(self, value: str | int | float, *keys: str | int) -> str:
        """The value reached by following `keys`, as a name: `3E5` may be a part number, and stays what is written."""
        node = self._root
        for key in keys:
            node = self._child(node, key)
        if isinstance(value, float) and isinstance(node, yaml.ScalarNode) and _WITH_EXPONENT.match(node.value):
            return str(node.value)
        return str(value)

    def _child(self, node: yaml.Node | None, key: str | int) -> yaml.Node | None:
        if isinstance(node, yaml.MappingNode):
            if id(node) not in self._entries:
                self._entries[id(node)] = {
                    name.value: value for name, value in node.value if isinstance(name, yaml.ScalarNode)
                }
            return self._entries[id(node)].get(str(key))
        if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            child: yaml.Node = node.value[key]
            return child
        return None


def read_yaml(path: Path) -> YamlFile:
    try:
        with open_regular(path) as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise UserError(what, where=path, fix="check the path and its permissions") from None
    if len(content) > _MAX_BYTES:
        what = f"has more than {_MAX_BYTES:,} bytes, too large for a YAML settings file"
        raise UserError(what, where=path, fix="check the path")
    try:
        return parse_yaml(content.decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError("is not UTF-8 text", where=path, line=line, fix="check the path, or save it as UTF-8") from None


def parse_yaml(text: str, where: str | None) -> YamlFile:
    """By libyaml; what that does not read is read once more, if it is short, for who explains it in more words."""
    _refuse_huge(text, where)
    try:
        return _parsed(_Loader, text, where)
    except UserError:
        if len(text) > _LONGEST_EXPLAINED:
            raise
        return _parsed(_ExplainingLoader, text, where)


def _refuse_huge(text: str, where: str | None) -> None:
    """More keys and values than any settings have, or deeper ones: libyaml would use up the stack of the process."""
    if text.count(_DIRECTIVE) > _MOST_DIRECTIVES:
        what = f"has more than {_MOST_DIRECTIVES} directives {_DIRECTIVE}"
        raise UserError(what, where=where, fix="remove them; settings need none")
    what, fix = f"has more than {_MOST_WRITTEN:,} keys and values", "check the path; settings have some hundreds"
    budget, depth = Budget(_MOST_WRITTEN, lambda: UserError(what, where=where, fix=fix)), 0
    for event in _events(text):
        budget.spend()
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEP:
            raise _too_deep(where)


def _events(text: str) -> Iterator[yaml.Event]:
    """Up to the first fault, which those say that build the values."""
    with suppress(yaml.YAMLError, ValueError):
        yield from yaml.parse(text, Loader=_Loader)


def _parsed(kind: type[Any], text: str, where: str | None) -> YamlFile:
    loader = None
    try:
        loader = kind(text)
        root = loader.get_single_node()
        _refuse_repeated_keys(root, where)
        if _unfolded(root, {}) > _MOST_VALUES:
            what = f"unfolds into more than {_MOST_VALUES:,} values"
            raise UserError(what, where=where, fix="write values out instead of repeating aliases (*name)")
        values = None if root is None else loader.construct_document(root)
    except UserError:
        raise
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        problem = error.problem or error.context or "cannot be parsed"
        raise UserError(f"is not valid YAML: {problem}", where=where, line=line, fix="correct that line") from None
    except yaml.YAMLError as error:
        raise UserError(f"is not valid YAML: {error}", where=where, fix="save it as plain text") from None
    except RecursionError:
        raise _too_deep(where) from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        # An impossible date, `!!int x`, a list as a key: the library lets its own errors through.
        raise UserError(f"holds a value YAML cannot build: {error}", where=where, fix="put text in quotes") from None
    finally:
        if loader is not None:
            loader.dispose()
    if not isinstance(values, dict):
        fix = "put its key above the list, as in `plan:`" if isinstance(values, list) else "check the path"
        raise UserError(f"must be a mapping of keys to values, not {shorten(values)}", where=where, line=1, fix=fix)
    return YamlFile(where, values, root)


def _too_deep(where: str | None) -> UserError:
    return UserError("is nested too deeply", where=where, fix="a settings file needs only a few levels")


def dump_yaml(values: Mapping[str, Any], **form: Any) -> str:
    """Text that `parse_yaml` gives the same values for, in the same order; `form` is as for `yaml.dump`."""
    text: str = yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, **form)
    return text


def _refuse_repeated_keys(root: yaml.Node | None, where: str | None) -> None:
    """YAML would silently keep the last of two equal keys. Of large numbers as keys there may be few."""
    waiting, visited, large = [root], set(), 0
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                waiting.append(value)
                if not isinstance(key, yaml.ScalarNode):
                    continue
                if key.value in keys:
                    what = f"the key {shorten(key.value)} stands twice"
                    raise UserError(what, where=where, line=key.start_mark.line + 1, fix="keep one of them")
                keys.add(key.value)
                large += _is_large_number(key)
                if large > _MOST_LARGE_KEYS:
                    what = f"has more than {_MOST_LARGE_KEYS} keys that are large numbers"
                    raise UserError(what, where=where, line=key.start_mark.line + 1, fix="number classes from 0 on")


def _is_large_number(key: yaml.ScalarNode) -> bool:
    is_number = key.tag.endswith((":int", ":float"))
    return is_number and not (key.value.isdecimal() and len(key.value) <= _LONGEST_SMALL_KEY)


def _unfolded(node: yaml.Node | None, known: dict[int, int]) -> int:
    """How many values there are if what aliases and merge keys repeat is counted each time."""
    if node is None or isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in known:
        known[id(node)] = 0  # one that holds itself is not followed again
        pairs = isinstance(node, yaml.MappingNode)
        inner = (one for pair in node.value for one in pair) if pairs else node.value
        known[id(node)] = 1 + sum(_unfolded(one, known) for one in inner)
    return known[id(node)]
