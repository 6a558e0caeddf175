"""Files that anybody may have written, read safely: plain files only, and YAML with the line of every entry.

A pipe or a device is an error instead of an endless wait. `open_plain` refuses links too, because run folders may come
from strangers: a `results.png` could link to a private file.

Numbers may be written `1e-5`, as in YAML 1.2. The library follows YAML 1.1, where that is text unless it has a dot and
a sign (`1.0e-5`). What is written here puts such text in quotes.
"""

import errno
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import yaml

from yolofast.errors import UserError, shorten

File = TypeVar("File", FileIO, BinaryIO)

_DO_NOT_WAIT = getattr(os, "O_NONBLOCK", 0)  # of no effect on plain files
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
# A model or data file is a few kilobytes; anything far beyond is not one, and parsing it would only waste time.
_MAX_BYTES = 8 * 2**20
_WITH_EXPONENT = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)[eE][-+]?[0-9]+$")
_MOST_BITS = 4096
"""About 1,200 digits."""


class Stamp(NamedTuple):
    """What changes when a file does."""

    changed_ns: int
    size: int
    inode: int

    @property
    def seconds(self) -> float:
        return self.changed_ns / 1e9


def stamp(path: Path) -> Stamp | None:
    """None if there is no plain file of that name."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return Stamp(found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def open_plain(path: Path) -> FileIO:
    """For reading bytes; raises OSError, also for links, pipes and devices."""
    return _regular(
        open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | _DO_NOT_WAIT | _NO_LINKS))
    )


def open_regular(path: str | Path) -> BinaryIO:
    """The same through a link, and buffered."""
    return _regular(open(path, "rb", opener=lambda name, flags: os.open(name, flags | _DO_NOT_WAIT)))


def _regular(file: File) -> File:
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file")
    return file


def read_plain(path: Path, most: int) -> bytes | None:
    """The whole file; None if it is not there or larger than `most` bytes."""
    try:
        with open_plain(path) as file:
            content = b""
            while len(content) <= most and (part := file.read(most + 1 - len(content))):
                content += part
    except OSError:
        return None
    return content if len(content) <= most else None


class _Loader(yaml.SafeLoader):
    pass


class _Dumper(yaml.SafeDumper):
    pass


def _whole(loader: _Loader, node: yaml.ScalarNode) -> int:
    """Python reads hexadecimal ones of any length, and refuses to print them where nobody expects it."""
    value: int = loader.construct_yaml_int(node)
    if value.bit_length() > _MOST_BITS:
        raise ValueError("a number of thousands of digits")
    return value


_Loader.add_constructor("tag:yaml.org,2002:int", _whole)
for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver("tag:yaml.org,2002:float", _WITH_EXPONENT, list("-+.0123456789"))


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

    def as_name(self, value: str | int | float, *keys: str | int) -> str:
        """The value reached by following `keys`, as a name: `3E5` may be a part number, and stays what is written."""
        node = self._root
        for key in keys:
            node = _child(node, key)
        if isinstance(value, float) and isinstance(node, yaml.ScalarNode) and _WITH_EXPONENT.match(node.value):
            return str(node.value)
        return str(value)


def read_yaml(path: Path) -> YamlFile:
    try:
        content = path.read_bytes()
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise UserError(what, where=path, fix="check the path and its permissions") from None
    if len(content) > _MAX_BYTES:
        what = f"is {len(content)} bytes, too large for a YAML settings file"
        raise UserError(what, where=path, fix="check the path")
    try:
        return parse_yaml(content.decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError("is not UTF-8 text", where=path, line=line, fix="check the path, or save it as UTF-8") from None


def parse_yaml(text: str, where: str | None) -> YamlFile:
    loader = None
    try:
        loader = _Loader(text)
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


def dump_yaml(values: Mapping[str, Any], **form: Any) -> str:
    """Text that `parse_yaml` gives the same values for, in the same order; `form` is as for `yaml.dump`."""
    text: str = yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, **form)
    return text


def _refuse_repeated_keys(root: yaml.Node | None, where: str | None) -> None:
    """YAML would silently keep the last of two equal keys."""
    waiting, visited = [root], set()
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


def _child(node: yaml.Node | None, key: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if name.value == str(key)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        child: yaml.Node = node.value[key]
        return child
    return None
