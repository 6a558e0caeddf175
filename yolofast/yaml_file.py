"""YAML read safely, remembering the line every entry came from, so that messages can point at it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from yolofast.errors import UserError, shorten

# A model or data file is a few kilobytes; anything far beyond is not one, and parsing it would only waste time.
_MAX_BYTES = 8 * 2**20


@dataclass(frozen=True)
class YamlFile:
    """A mapping read from YAML: plain values, and the place of each."""

    where: str | None
    values: dict[Any, Any]
    _root: yaml.Node | None = None

    def line(self, *keys: str | int) -> int | None:
        """The line of the entry reached by following `keys`, or of the last one that exists; None if unknown."""
        node = self._root
        for key in keys:
            child = _child(node, key)
            if child is None:
                break
            node = child
        return None if node is None else node.start_mark.line + 1


def read_yaml(path: Path) -> YamlFile:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"cannot be read: {error.strerror}", where=path, fix="check the path and its permissions"
        ) from None
    if len(content) > _MAX_BYTES:
        raise UserError(
            f"is {len(content)} bytes, too large for a YAML settings file", where=path, fix="check the path"
        )
    try:
        return parse_yaml(content.decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError("is not UTF-8 text", where=path, line=line, fix="check the path, or save it as UTF-8") from None


def parse_yaml(text: str, where: str | None) -> YamlFile:
    loader = None
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        _refuse_repeated_keys(root, where)
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
        raise UserError("is nested too deeply", where=where, fix="a settings file needs only a few levels") from None
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


def _refuse_repeated_keys(root: yaml.Node | None, where: str | None) -> None:
    """YAML would silently keep the last of two equal keys."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                waiting.append(value)
                if isinstance(key, yaml.ScalarNode) and key.value in keys:
                    what = f"the key {shorten(key.value)} stands twice"
                    raise UserError(what, where=where, line=key.start_mark.line + 1, fix="keep one of them")
                if isinstance(key, yaml.ScalarNode):
                    keys.add(key.value)


def _child(node: yaml.Node | None, key: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if name.value == str(key)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        child: yaml.Node = node.value[key]
        return child
    return None
