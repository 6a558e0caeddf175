"""XML that anybody may have written, read in one pass: elements with their lines, one record at a time.

A document type is refused, so there are no entities to expand or to fetch. Only the current record is held, and what it
may hold is counted: a file of gigabytes passes through megabytes. `xml.etree` would give neither lines nor limits.
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from xml.parsers import expat

from yolofast.errors import UserError
from yolofast.files.budget import Budget, open_regular

_PIECE = 2**18
_DEEPEST = 50
_MOST_HELD = 100_000
"""Elements, attributes and pieces of text of one record."""
_LONGEST_TOKEN = 2**23
"""Bytes of a tag with its attributes. Older versions of expat begin anew with every piece of a longer one."""
_LOT = 500
_BYTES_PER_STEP = 100
_MOST_BYTES = 2**33
_FIX = "export it again"


class XmlElement:
    """One element; its children in order, without those that were handed out as records."""

    __slots__ = ("attributes", "children", "line", "pieces", "tag")

    def __init__(self, tag: str, attributes: dict[str, str], line: int) -> None:
        self.tag, self.attributes, self.line = tag, attributes, line
        self.children: list[XmlElement] = []
        self.pieces: list[str] = []
        """Of its text."""

    @property
    def text(self) -> str:
        return "".join(self.pieces).strip()

    def child(self, tag: str, *below: str) -> "XmlElement | None":
        """The first one that is reached by these tags."""
        for one in self.children:
            if one.tag == tag:
                return one.child(*below) if below else one
        return None

    def text_of(self, tag: str, *below: str) -> str:
        """Empty if there is no such child."""
        found = self.child(tag, *below)
        return "" if found is None else found.text

    def all(self, tag: str) -> "Iterator[XmlElement]":
        return (one for one in self.children if one.tag == tag)


def read_xml(path: str | Path, records: Collection[str] = (), most_bytes: int = _MOST_BYTES) -> Iterator[XmlElement]:
    """Every child of the root with one of the tags `records`, as soon as it is read; last the root, without these.

    Raises `UserError` with the line.
    """
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > most_bytes:
                what = f"has {size:,} bytes, more than the {most_bytes:,} that are allowed"
                raise UserError(what, where=path, fix="check that it is an annotation file")
            reader = _Reader(path, records)
            while piece := file.read(_PIECE):
                yield from reader.feed(piece)
            yield from reader.feed(b"", last=True)
    except OSError as error:
        fix = "check the path and its permissions"
        raise UserError(f"cannot be read: {error.strerror}", where=path, fix=fix) from None


class _Reader:
    """Handlers are called for every tag and text, a hundred times a file: they do little, and spend in lots."""

    def __init__(self, path: str | Path, records: Collection[str]) -> None:
        self._path, self._records = path, records
        self._open: list[XmlElement] = []
        self._ready: list[XmlElement] = []
        self._outer = self._budget = self._new_budget()
        self._spent = 0
        self._fed = 0
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuse_doctype

    def feed(self, piece: bytes, *, last: bool = False) -> list[XmlElement]:
        self._ready = []
        self._fed += len(piece)
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            what = f"is not valid XML: {expat.errors.messages[error.code]}"
            raise UserError(what, where=self._path, line=error.lineno, fix=_FIX) from None
        except (UnicodeError, LookupError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            raise self._refusal(f"is not valid XML: {error}") from None  # such as an encoding that nobody knows
        if self._fed - self._parser.CurrentByteIndex > _LONGEST_TOKEN:
            raise self._refusal(f"has a tag of more than {_LONGEST_TOKEN:,} bytes")
        return self._ready

    def _new_budget(self) -> Budget:
        what = f"holds more than {_MOST_HELD:,} values in one element"
        return Budget(_MOST_HELD, lambda: self._refusal(what))

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        opened = self._open
        depth = len(opened)
        if depth >= _DEEPEST:
            raise self._refusal(f"has elements in elements, more than {_DEEPEST} deep")
        if depth == 1 and tag in self._records:
            self._budget, self._spent = self._new_budget(), 0
        self._spent += 1 + len(attributes)
        if self._spent >= _LOT:
            self._budget.spend(self._spent)
            self._spent = 0
        opened.append(XmlElement(tag, attributes, self._parser.CurrentLineNumber))

    def _end(self, tag: str) -> None:
        opened = self._open
        element = opened.pop()
        depth = len(opened)
        if depth > 1 or (depth == 1 and tag not in self._records):
            opened[-1].children.append(element)
            return
        self._ready.append(element)
        self._budget = self._outer

    def _text(self, text: str) -> None:
        if text.isspace():  # between tags
            return
        self._spent += 1 + len(text) // _BYTES_PER_STEP
        self._open[-1].pieces.append(text)

    def _refuse_doctype(self, *_: Any) -> None:
        raise self._refusal("has a document type (<!DOCTYPE …>), which annotation files do not need")

    def _refusal(self, what: str) -> UserError:
        return UserError(what, where=self._path, line=self._parser.CurrentLineNumber, fix=_FIX)
