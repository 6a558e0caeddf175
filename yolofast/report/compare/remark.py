"""Something to be known before the figures are believed."""

from collections.abc import Iterable
from dataclasses import dataclass

CONTRADICTION, NOT_COMPARABLE, INCOMPLETE, NOTE = "contradiction", "not comparable", "incomplete", "note"
_WORST_FIRST = (CONTRADICTION, NOT_COMPARABLE, INCOMPLETE, NOTE)


@dataclass(frozen=True)
class Remark:
    kind: str
    text: str


def worst_first(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    return tuple(sorted(remarks, key=lambda remark: _WORST_FIRST.index(remark.kind)))
