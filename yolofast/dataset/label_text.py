"""The text of one label file -> classes, boxes and polygons, and every fault in it with its line.

Rows are `class cx cy w h`; a row of more than 8 values makes the file one of polygons, `class x1 y1 x2 y2 …`, and the
boxes are those around them. A row that repeats an earlier one is dropped.
"""

from yolofast.dataset.faults import FaultKind
from yolofast.dataset.reading import ImageRows
from yolofast.errors import shorten

_BOX_COLUMNS = 5
_LONGEST_BOX_ROW = 8
_ONE = 1.0 + 2.0**-25  # what still rounds to 1 in single precision


class _RowError(ValueError):
    def __init__(self, kind: FaultKind, what: str, fix: str) -> None:
        super().__init__(what)
        self.kind, self.what, self.fix = kind, what, fix


def parse_labels(text: str, nc: int | None, where: str, image: str) -> ImageRows:
    """`nc` None accepts any class number, for training without classes (`single_cls`)."""
    rows = ImageRows(where, image)
    lines = [(number, line.split()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    polygons = any(len(fields) > _LONGEST_BOX_ROW for _, fields in lines)
    first_line: dict[tuple[float, ...], int] = {}
    for number, fields in lines:
        try:
            row = _parse_row(fields, polygons, nc)
        except _RowError as error:
            rows.note(error.kind, error.what, error.fix, line=number)
            continue
        if (earlier := first_line.setdefault(row, number)) != number:
            what = f"repeats line {earlier}; it counts once"
            rows.note(FaultKind.DUPLICATE_ROW, what, "remove the line", line=number, fatal=False)
            continue
        label, *coordinates = row
        box = bounding_box(coordinates) if polygons else (row[1], row[2], row[3], row[4])
        rows.add(int(label), box, coordinates if polygons else [], (number, "the box"))
    return rows


def _parse_row(fields: list[str], polygons: bool, nc: int | None) -> tuple[float, ...]:
    _check_columns(len(fields), polygons)
    row = tuple(_number(text) for text in fields)
    if not row[0].is_integer() or not 0 <= row[0] < (2**53 if nc is None else nc):
        last = "" if nc is None else f" to {nc - 1}"
        what = f"class {fields[0][:40]} is not a whole number from 0{last}"
        raise _RowError(FaultKind.UNKNOWN_CLASS, what, "correct the label, or nc and names in the data yaml")
    for text, value in zip(fields[1:], row[1:], strict=True):
        if not 0.0 <= value <= _ONE:
            fix = "divide x and width by the image's width, y and height by its height"
            raise _RowError(FaultKind.OUT_OF_RANGE, f"{text[:40]} is outside 0 to 1", fix)
    return row


def _check_columns(count: int, polygons: bool) -> None:
    if polygons and (count < 7 or count % 2 == 0):
        what = f"{count} values in a file of polygons (one of its rows has more than {_LONGEST_BOX_ROW})"
        fix = "write class x1 y1 x2 y2 x3 y3 … on every row: boxes and polygons do not mix in one file"
        raise _RowError(FaultKind.COLUMNS, what, fix)
    if not polygons and count != _BOX_COLUMNS:
        raise _RowError(FaultKind.COLUMNS, f"{count} values instead of {_BOX_COLUMNS}", "write class cx cy w h")


def _number(text: str) -> float:
    try:
        if "_" not in text:  # which Python would allow within a number
            return float(text)
    except ValueError:
        pass
    fix = "separate numbers by spaces, with . for decimals"
    raise _RowError(FaultKind.NOT_A_NUMBER, f"{shorten(text)} is not a number", fix)


def bounding_box(polygon: list[float]) -> tuple[float, float, float, float]:
    """cx, cy, w, h around x1, y1, x2, y2, …"""
    x, y = polygon[0::2], polygon[1::2]
    left, right, top, bottom = min(x), max(x), min(y), max(y)
    return (left + right) / 2, (top + bottom) / 2, right - left, bottom - top
