"""Rows of a CSV file whose losses can be compared with one another: each once, and made of the same terms."""

from yolofast.runs.table import Columns

_L1 = "/l1_loss"
"""YOLOX switches this term on for the last epochs, and the total steps up without anything getting worse."""


def without_late_terms(columns: Columns) -> Columns:
    """Without the L1 terms of a run that had them for a part of its epochs only."""
    late = [name for name in columns.text if name.endswith(_L1) and _begins_late(columns, name)]
    return Columns(columns.path, {name: cells for name, cells in columns.text.items() if name not in late})


def each_once(columns: Columns, *names: str) -> Columns:
    """Rows that are alike in all these columns as one: of each cell the last that is not empty.

    A resumed run repeats an epoch, and the later one counts; other loggers write training and validation apart.
    """
    if not all(name in columns for name in names):
        return columns
    rows: dict[tuple[str, ...], list[int]] = {}
    for row, key in enumerate(zip(*(columns.text[name] for name in names), strict=True)):
        rows.setdefault(key, []).append(row)

    def merged(cells: list[str]) -> list[str]:
        return [next((cells[row] for row in reversed(same) if cells[row]), "") for same in rows.values()]

    return Columns(columns.path, {name: merged(cells) for name, cells in columns.text.items()})


def _begins_late(columns: Columns, name: str) -> bool:
    values = columns.numbers(name)
    return bool((values == 0).any() and (values > 0).any())
