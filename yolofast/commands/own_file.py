"""Pages that may be written over: those that this program has written. Anything else somebody may still need.

A page says so in its last line, JSON in its first entry. Words alone would not do: a note about a command names it.
"""

import re
from pathlib import Path

from yolofast.errors import UserError

_HEAD_BYTES = 512


def mark(command: str) -> str:
    """The last line of a page of HTML or Markdown."""
    return f"<!-- {command} -->\n"


def refuse_foreign(path: Path, command: str) -> None:
    """`command` is the one whose files may be replaced, as `yolofast compare`."""
    if path.is_dir():
        raise UserError("is a folder", where=path, fix="name a file in it")
    if not path.exists():
        return
    last = mark(command).encode()
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        file.seek(max(0, path.stat().st_size - len(last)))
        tail = file.read()
    if tail != last and not re.match(rb'\{\s*"made_by": "' + re.escape(command.encode()) + b'"', head):
        raise UserError(f"exists and was not written by `{command}`", where=path, fix="name another file, or remove it")
