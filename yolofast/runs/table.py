"""A CSV file as columns of numbers, whichever program wrote it.

Headings are trimmed. A row torn by a kill is omitted, and so are headings repeated by a resumed run. Spreadsheets
separate cells by semicolons or tabs where a comma is the decimal point. A file that is still being written is read line
by line (`headings`, `row_of`), so that no byte is read twice.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError, shorten
from yolofast.files.budget import opened_text
from yolofast.files.known_numbers import HUGE

Floats = npt.NDArray[np.float64]
Row = tuple[float | None, ...]

MAX_BYTES = 512 * 2**20
KINDS = (
    "a run's folder, results.csv or another CSV of losses, YOLOv7's results.txt, YOLOX's train_log.txt, or a log "
    "with lines `iter i/n - loss: …`"
)
"""Of files that can be read."""
TORN = "the last line has no end, as where a run was killed or is writing it, and may be torn: it is left out"
MAX_COLUMNS = 200
"""Of a file that is being written."""
_LONGEST_NAME = 60
_SEPARATORS = ",;\t"
_DECIMAL_COMMA = re.compile(r"^([-+]?\d*),(\d+(?:[eE][-+]?\d+)?)$")
_TINY = 1e-30


def bounded(values: Floats) -> Floats:
    """Huge values are infinite and tiny ones 0: their squares and ratios could not be computed."""
    return np.where(np.abs(values) > HUGE, np.inf, np.where(np.abs(values) < _TINY, 0.0, values))


@dataclass(frozen=True)
class Columns:
    path: Path
    text: dict[str, list[str]]
    remarks: tuple[str, ...] = ()
    """What was not read, and why."""

    def __contains__(self, name: str) -> bool:
        return name in self.text

    def __len__(self) -> int:
        return len(next(iter(self.text.values()), []))

    def losses(self, name: str) -> Floats:
        """Empty cells are NaN (unknown); a loss that was NaN is infinite."""
        values, is_given = self.numbers(name), np.array([bool(cell) for cell in self.text[name]])
        return np.where(np.isnan(values) & is_given, np.inf, values)

    def first_of(self, names: Iterable[str], *, losses: bool = False) -> Floats | None:
        """The first of these columns that is there."""
        return next(((self.losses if losses else self.numbers)(name) for name in names if name in self.text), None)

    def numbers(self, name: str) -> Floats:
        """Empty cells are NaN."""
        try:
            return bounded(np.array([float(cell) if cell else np.nan for cell in self.text[name]]))
        except ValueError:
            row, cell = next((i, c) for i, c in enumerate(self.text[name]) if not is_number(c))
            what, fix = f"{name} is {shorten(cell)}", "give a number, or an empty cell"
            raise UserError(what, where=self.path, line=row + 2, fix=fix) from None


def read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"is {path.stat().st_size:,} bytes, too large for a log", where=path, fix="check the path")
        with opened_text(path, errors="replace") as file:
            return file.read()
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise UserError(what, where=path, fix="check the path and its permissions") from None


def refuse_binary(text: str, path: Path) -> None:
    if "\0" in text:
        raise UserError("is not text", where=path, fix=f"give {KINDS}")


def read_columns(path: Path) -> Columns:
    text = read_text(path)
    refuse_binary(text, path)
    rows = _rows(text)
    headings = rows[0] if rows else []
    twice = next((name for name, count in Counter(headings).items() if count > 1), None)
    if twice is not None:
        raise UserError(f"the column {shorten(twice)} stands twice", where=path, line=1, fix="keep one of them")
    whole = [row for row in rows[1:] if len(row) == len(headings) and row != headings]
    if not whole:
        raise UserError("has no row", where=path, fix="wait for the first epoch, or give another file")
    is_torn = has_no_end(text) and (whole[-1] is not rows[-1] or may_be_torn([row[-1] for row in whole]))
    complete = [row for row in whole if not (is_torn and row is rows[-1])]
    cells = {name: [row[i] for row in complete] for i, name in enumerate(headings)}
    return Columns(path, cells, (TORN,) if is_torn else ())


def has_no_end(text: str) -> bool:
    """Whether the last line is unterminated: trainers and loggers end theirs, some editors do not."""
    return bool(text.rpartition("\n")[2].strip())


def may_be_torn(texts: Sequence[str]) -> bool:
    """Whether a kill may have cut the last of them: not if all are equally long by their format."""
    return any(len(text) != len(texts[-1]) for text in texts)


def _rows(text: str) -> list[list[str]]:
    """The cells of each line, by the separator its headings have most of."""
    lines = text.splitlines()
    headings = next((line for line in lines if line.strip()), "")
    separator = max(_SEPARATORS, key=headings.count)
    rows = [[cell.strip() for cell in row] for row in csv_rows(lines, separator) if row]
    if separator == ",":
        return rows
    return [rows[0], *([_DECIMAL_COMMA.sub(r"\1.\2", cell) for cell in row] for row in rows[1:])]


def csv_rows(lines: Iterable[str], separator: str = ",") -> Iterator[list[str]]:
    """Without those that hold a cell longer than the library reads, which no table of figures has."""
    rows = csv.reader(lines, delimiter=separator)
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error:
            continue


def is_number(cell: str) -> bool:
    try:
        float(cell or "0")
    except ValueError:
        return False
    return True


def headings(line: bytes) -> tuple[str, ...]:
    names = [name.strip().strip('"') for name in line.decode("utf-8", "replace").removeprefix("\ufeff").split(",")]
    return tuple(name[:_LONGEST_NAME] for name in names[:MAX_COLUMNS])


def number(cell: bytes) -> float | None:
    """None unless it is a finite number."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def row_of(line: bytes, count: int, indices: Sequence[int]) -> Row | None:
    """The cells at these indices; None for a torn row, which has fewer cells than there are columns."""
    cells = line.split(b",")
    return tuple([number(cells[i]) for i in indices]) if len(cells) == count else None
