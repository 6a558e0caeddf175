"""What a table's cell holds, for all renderers alike."""

from yolofast.pages.elements import Cell, Marked
from yolofast.pages.numbers import shown


def cell_value(cell: Cell) -> str | float | None:
    return cell.value if isinstance(cell, Marked) else cell


def cell_text(cell: Cell) -> str:
    value = cell_value(cell)
    return value if isinstance(value, str) else shown(value)


def is_number(cell: Cell) -> bool:
    """What is unknown counts too: it does not turn a column of numbers into one of text."""
    return not isinstance(cell_value(cell), str)
