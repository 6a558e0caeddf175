"""Cells of a CSV line as numbers; what is no finite number is not known."""

import math
from collections.abc import Sequence

Row = tuple[float | None, ...]

MAX_COLUMNS = 200
_LONGEST_NAME = 60


def headings(line: bytes) -> tuple[str, ...]:
    names = [name.strip().strip('"') for name in line.decode("utf-8", "replace").removeprefix("\ufeff").split(",")]
    return tuple(name[:_LONGEST_NAME] for name in names[:MAX_COLUMNS])


def number(cell: bytes) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def row_of(line: bytes, count: int, kept: Sequence[int]) -> Row | None:
    """The cells at those places; None for a row that has not as many as there are columns: a kill has torn it."""
    cells = line.split(b",")
    return tuple([number(cells[i]) for i in kept]) if len(cells) == count else None
