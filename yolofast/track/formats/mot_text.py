"""Rows of MOTChallenge text, `frame,id,x,y,w,h,…`, and every fault in them with its line.

The whole text is parsed at once; only a text that is not a table of numbers is read line by line, to say where and why.
A fatal fault makes its row unusable: readers refuse the file, or omit the row where they are asked to.
"""

import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from yolofast.dataset.faults import Fault, FaultKind
from yolofast.errors import shorten
from yolofast.track.formats.sequence import MOST_FRAMES, Bools, Floats, Ints
from yolofast.words import counted

Kind = Literal["truth", "results", "detections"]
LEAST_COLUMNS = 6
_NEEDED = "frame,id,x,y,w,h"
_LARGEST = 2.0**53
_LISTED = 1000
"""Faults of one kind in one file that are listed; millions of the same would only fill memory."""


@dataclass
class MotRows:
    """Rows as numbers, and what is wrong with them."""

    where: str
    text: str
    rows: Floats = field(default_factory=lambda: np.zeros((0, LEAST_COLUMNS)))
    bad: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    """[rows] with a fatal fault"""
    faults: list[Fault] = field(default_factory=list)
    known_lines: list[int] | None = None
    unit: str = "line"
    """What the numbers of rows count: lines, rows of an array, or annotations of a JSON file."""

    @cached_property
    def lines(self) -> Ints:
        """Line of each row; found only if there is a fault to be reported."""
        if self.known_lines is None:
            self.known_lines = [number for number, line in enumerate(self.text.split("\n"), 1) if line.strip()]
        return np.array(self.known_lines, np.int64)

    def note(self, kind: FaultKind, line: int | None, what: str, fix: str, *, fatal: bool = True) -> None:
        if self.unit != "line" and line is not None:
            line, what = None, f"{self.unit} {line}: {what}"
        self.faults.append(Fault(kind=kind, where=self.where, line=line, what=what, fix=fix, fatal=fatal))

    def note_rows(
        self, kind: FaultKind, which: Bools, say: Callable[[int], str], fix: str, *, fatal: bool = True
    ) -> None:
        """One fault for each row; a row has at most one that is fatal."""
        places = np.flatnonzero(which & ~self.bad)
        for place in places[:_LISTED].tolist():
            self.note(kind, int(self.lines[place]), say(place), fix, fatal=fatal)
        if len(places) > _LISTED:
            more = f"and {len(places) - _LISTED:,} more rows of this kind"
            self.note(kind, int(self.lines[places[_LISTED]]), more, fix, fatal=fatal)
        if fatal:
            self.bad |= which


def parse_mot(text: str, where: str, kind: Kind, length: int | None = None) -> MotRows:
    """Rows in the order of the text; columns are those of the file, six at least."""
    found = MotRows(where, text)
    if text.strip():
        delimiter = "," if "," in text.lstrip().partition("\n")[0] else None
        try:
            found.rows = np.loadtxt(io.StringIO(text), delimiter=delimiter, comments=None, ndmin=2)
            if found.rows.shape[1] < LEAST_COLUMNS:
                raise ValueError("too few columns")
        except ValueError:
            found.rows = _line_by_line(found, delimiter)
    _check(found, kind, length)
    return found


def check_rows(
    rows: Floats,
    where: str,
    kind: Kind,
    length: int | None = None,
    *,
    numbers: list[int] | None = None,
    unit: str = "row",
) -> MotRows:
    """The same for rows that are an array already; `numbers` are what messages call them, by default from 1."""
    found = MotRows(where, "", rows, known_lines=numbers or list(range(1, len(rows) + 1)), unit=unit)
    _check(found, kind, length)
    return found


def _line_by_line(found: MotRows, delimiter: str | None) -> Floats:
    """Rows that cannot be used are faults and not among them; the most frequent number of columns is the right one."""
    split = [(number, line.split(delimiter)) for number, line in enumerate(found.text.split("\n"), 1) if line.strip()]
    widths = Counter(len(fields) for _, fields in split)
    usual = max(widths, key=lambda width: (widths[width], width))
    found.known_lines, rows = [], []
    for number, fields in split:
        wrong = next((one for one in fields if not _is_number(one)), None)
        if len(fields) < LEAST_COLUMNS or len(fields) != usual:
            least = f"at least {LEAST_COLUMNS}" if usual < LEAST_COLUMNS else str(usual)
            cut = "; the file may have been cut off" if number == split[-1][0] else ""
            what = f"{counted(len(fields), 'value')} instead of {least}{cut}"
            found.note(FaultKind.COLUMNS, number, what, f"write {_NEEDED},… on each line")
        elif wrong is not None:
            fix = f"write {_NEEDED},… on each line"
            found.note(FaultKind.NOT_A_NUMBER, number, f"{shorten(wrong.strip())} is not a number", fix)
        else:
            found.known_lines.append(number)
            rows.append([float(one) for one in fields])
    return np.array(rows, np.float64) if rows else np.zeros((0, max(usual, LEAST_COLUMNS)))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _check(found: MotRows, kind: Kind, length: int | None) -> None:
    rows = found.rows
    found.bad = np.zeros(len(rows), np.bool_)
    used = rows[:, : LEAST_COLUMNS + 1]
    bad_number: Bools = np.any(~np.isfinite(used), axis=1)
    found.note_rows(
        FaultKind.NOT_A_NUMBER, bad_number, lambda i: f"{used[i][~np.isfinite(used[i])][0]} is not a finite number",
        "correct the row, or remove it",
    )  # fmt: skip
    frame, id = rows[:, 0], rows[:, 1]
    found.note_rows(
        FaultKind.FRAME, _not_whole(frame) | (frame < 1) | (frame > MOST_FRAMES),
        lambda i: f"frame {frame[i]:g} is not a whole number from 1 to {MOST_FRAMES:,}", "count frames from 1",
    )  # fmt: skip
    if length is not None:
        found.note_rows(
            FaultKind.FRAME, frame > length, lambda i: f"frame {frame[i]:g}, but there are {length:,}",
            "correct the row, or seqLength in seqinfo.ini",
        )  # fmt: skip
    width, height = rows[:, 4], rows[:, 5]
    found.note_rows(
        FaultKind.BAD_BOX, (width < 0) | (height < 0), lambda i: f"a box {width[i]:g} wide and {height[i]:g} high",
        "write x,y,w,h: the left top corner, width and height",
    )  # fmt: skip
    found.note_rows(
        FaultKind.BAD_BOX, (width == 0) | (height == 0),
        lambda i: f"a box {width[i]:g} wide and {height[i]:g} high has no area, so nothing matches it",
        "remove the row", fatal=False,
    )  # fmt: skip
    if kind != "detections":
        found.note_rows(
            FaultKind.IDENTITY, _not_whole(id) | (id < 0), lambda i: f"identity {id[i]:g} is not a whole number from 0",
            "give each object an id; a file of detections cannot be scored before it is tracked",
        )  # fmt: skip
        _check_twice(found)
    _check_order(found)


def _not_whole(values: Floats) -> Bools:
    not_whole: Bools = (values != np.floor(values)) | (np.abs(values) > _LARGEST)
    return not_whole


def _check_twice(found: MotRows) -> None:
    """The later of two rows with one identity is the bad one."""
    good = np.flatnonzero(~found.bad)
    frame, id = found.rows[good, 0], found.rows[good, 1]
    order = np.lexsort((good, id, frame))
    again = np.flatnonzero((np.diff(frame[order]) == 0) & (np.diff(id[order]) == 0)) + 1
    earlier = {int(good[order[at]]): int(good[order[at - 1]]) for at in again.tolist()}
    twice = np.zeros(len(found.rows), np.bool_)
    twice[list(earlier)] = True
    found.note_rows(
        FaultKind.DUPLICATE_IDENTITY, twice,
        lambda i: f"identity {found.rows[i, 1]:.0f} is in frame {found.rows[i, 0]:.0f} "
        f"already, {_on(found.unit)} {found.lines[earlier[i]]}",
        "an object is at one place at a time: remove one of the rows",
    )  # fmt: skip


def _on(unit: str) -> str:
    return "on line" if unit == "line" else f"in {unit}"


def _check_order(found: MotRows) -> None:
    frame = found.rows[~found.bad, 0]
    back = np.flatnonzero(np.diff(frame) < 0)
    # By identity, as many tools write, is an order too: only the file as a whole is remarked on.
    if len(back):
        first = int(found.lines[np.flatnonzero(~found.bad)[back[0] + 1]])
        what = f"frame {frame[back[0] + 1]:.0f} after frame {frame[back[0]]:.0f}; the rows were sorted"
        found.note(FaultKind.FRAME_ORDER, first, what, "write frames in their order", fatal=False)
