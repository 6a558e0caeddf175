"""A JSON file that is one long list of objects, read entry by entry: gigabytes pass through a buffer of megabytes.

Only the buffer and the current entry are held. What is not such a list is refused with its line and the entry's number.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from yolofast.errors import UserError, nearest_file, shorten
from yolofast.files.budget import open_regular

_PIECE = 1 << 22
"""Bytes that are read at once."""
_LONGEST = 1 << 20
"""Characters of an entry: what is longer is not a row of a table, but a file that is broken."""
_SPACE = re.compile(r"[ \t\n\r]*")
_COMMA = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_FIX = "download or export it again"


def read_json_list(path: Path, tell: Callable[[int], None] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Entries with their numbers, from 0; `tell` is told how many bytes have been read."""
    try:
        with open_regular(path) as file:
            yield from _Reader(path, file, tell or (lambda done: None)).entries()
    except FileNotFoundError:
        raise UserError(f"does not exist{nearest_file(path)}", where=path, fix="check the path") from None
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, fix="give a file that can be read") from None


class _Reader:
    def __init__(self, path: Path, file: BinaryIO, tell: Callable[[int], None]) -> None:
        self._path, self._file, self._tell = path, file, tell
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._ended = "", 0, False
        self._bytes, self._lines = 0, 1
        self._entry = 0

    def entries(self) -> Iterator[tuple[int, dict[str, Any]]]:
        self._require("[", "it does not begin with a list")
        if self._next() == "]":
            self._at += 1
        else:
            yield from self._objects()
        if self._next():
            raise self._fault("something follows the list", self._at)

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        while True:
            try:
                row, self._at = _decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                self._read_on(error)
                continue
            if not isinstance(row, dict):
                raise self._fault(f"{shorten(row)} is not an object", self._at)
            yield self._entry, row
            self._entry += 1
            comma = _COMMA.match(self._text, self._at)
            if comma is not None and comma.end() < len(self._text):  # nearly always: the rest is at the end of a piece
                self._at = comma.end()
            elif self._next() == "]":
                self._at += 1
                return
            else:
                self._require(",", "an entry is followed by neither , nor ]")
                self._next()

    def _read_on(self, error: Exception) -> None:
        """At the end of a piece an entry is cut in two, and that is no fault."""
        if len(self._text) - self._at < _LONGEST and self._more():
            return
        if isinstance(error, json.JSONDecodeError):
            raise self._fault(error.msg, error.pos) from None
        raise self._fault(str(error), self._at) from None

    def _next(self) -> str:
        """The next character that is not a space; empty at the end of the file."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = self._at if space is None else space.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _require(self, character: str, otherwise: str) -> None:
        if self._next() != character:
            raise self._fault(otherwise, self._at)
        self._at += 1

    def _more(self) -> bool:
        """Another piece behind the text, of which what has been used is dropped; whether there was one."""
        if self._ended:
            return False
        piece = self._file.read(_PIECE)
        self._ended = not piece
        try:
            text = self._decoder.decode(piece, final=self._ended)
        except UnicodeDecodeError as error:
            what = f"is not UTF-8 text near byte {self._bytes + error.start:,}"
            raise UserError(what, where=self._path, fix=_FIX) from None
        self._bytes += len(piece)
        self._tell(self._bytes)
        self._lines += self._text.count("\n", 0, self._at)
        self._text, self._at = self._text[self._at :] + text, 0
        return not self._ended

    def _fault(self, what: str, place: int) -> UserError:
        line = self._lines + self._text.count("\n", 0, place)
        cut = "; it may have been cut off" if self._ended and not self._text.rstrip().endswith("]") else ""
        return UserError(
            f"is not a JSON list of objects: {what}, in entry {self._entry:,}{cut}",
            where=self._path, line=line, fix=_FIX,
        )  # fmt: skip


_decode = json.JSONDecoder().raw_decode
