"""Which files may be overwritten: those that the same command has written.

A page says so in its last line, JSON in its first entry. Traces are written by torch and known by their form.
"""

import gzip
import re
from pathlib import Path

from yolofast.errors import UserError

_HEAD_BYTES = 512
_OTHER_FILE = "name another file, or remove it"


def mark(command: str) -> str:
    """The last line of a page of HTML or Markdown."""
    return f"<!-- {command} -->\n"


def refuse_foreign(path: Path, command: str, fix: str = _OTHER_FILE) -> None:
    """`command` is the one whose files may be replaced, as `yolofast compare`."""
    if not _is_file(path):
        return
    last = mark(command).encode()
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        file.seek(max(0, path.stat().st_size - len(last)))
        tail = file.read()
    if tail != last and not re.match(rb'\{\s*"made_by": "' + re.escape(command.encode()) + b'"', head):
        raise UserError(f"exists and was not written by `{command}`", where=path, fix=fix)


def refuse_other_than_trace(path: Path) -> None:
    """One that ends in .gz is packed."""
    if not _is_file(path):
        return
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            is_trace = re.match(rb'\s*\{\s*"schemaVersion":', file.read(_HEAD_BYTES)) is not None
    except (gzip.BadGzipFile, EOFError):
        is_trace = False
    if not is_trace:
        raise UserError("exists and is not a trace", where=path, fix=_OTHER_FILE)


def _is_file(path: Path) -> bool:
    if path.is_dir():
        raise UserError("is a folder", where=path, fix="name a file in it")
    return path.exists()
