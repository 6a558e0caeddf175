"""Columns of numbers: as they grow while a table is read, and as tables that are cut and sorted by rows."""

from array import array
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np


class GrowingColumns:
    """Rows of so many numbers each; they grow in memory of their own, eight bytes a number."""

    def __init__(self, width: int, *, whole: bool = False) -> None:
        self._width, self._kind = width, np.int64 if whole else np.float64
        self._values: array[Any] = array("q" if whole else "d")

    def __len__(self) -> int:
        return len(self._values) // self._width

    def add(self, *values: float) -> None:
        self._values.extend(values)

    def array(self) -> Any:
        """[n, width], or [n] for a width of 1."""
        found = np.frombuffer(self._values, self._kind)
        return found if self._width == 1 else found.reshape(-1, self._width)


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnTable:
    """Columns of one length; `table[rows]` is some of them."""

    def __getitem__(self, which: Any) -> Self:
        return replace(self, **{one.name: getattr(self, one.name)[which] for one in fields(self)})
