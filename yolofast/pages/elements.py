"""What a page is made of: plain values without any HTML, so that a page can be built, compared and tested as data.

Numbers are given as numbers; how many digits are shown is decided in one place (`text.shown`). A value of None, or one
that is not finite, is unknown: an empty cell, a gap in a curve.
"""

from dataclasses import dataclass
from typing import Literal

Mark = Literal["best", "worse", "warn"]


@dataclass(frozen=True)
class Marked:
    """A table cell that stands out; `hint` says why when it is pointed at."""

    value: str | float | None
    mark: Mark
    hint: str = ""


Cell = str | float | int | None | Marked


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    sortable: bool = False

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), "every row has a cell for every column"


@dataclass(frozen=True)
class Series:
    """A curve. Series of one `group` have one colour; `low` and `high` are the edges of a shaded band."""

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    group: str = ""
    dashed: bool = False
    low: tuple[float | None, ...] | None = None
    high: tuple[float | None, ...] | None = None

    def __post_init__(self) -> None:
        assert all(len(values) == len(self.x) for values in (self.y, self.low, self.high) if values is not None)
        assert (self.low is None) == (self.high is None), "a band has two edges"


@dataclass(frozen=True)
class LineChart:
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_y: bool = False
    hint: str = ""
    x_names: tuple[str, ...] = ()
    """Words in place of the numbers 1, 2, … of the horizontal axis."""


@dataclass(frozen=True)
class Point:
    name: str
    x: float
    y: float
    group: str = ""
    best: bool = False
    """On the line that is drawn through the best ones (the Pareto front)."""
    short: str = ""
    """What stands beside it, in place of the name."""


@dataclass(frozen=True)
class ScatterChart:
    title: str
    x_label: str
    y_label: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Bar:
    name: str
    parts: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class BarChart:
    """Horizontal bars, each a sum of its parts; parts of one name have one colour."""

    title: str
    unit: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Matrix:
    """Counts by row and column, each cell shaded by its share of the column."""

    title: str
    row_label: str
    column_label: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    hint: str = ""

    def __post_init__(self) -> None:
        assert len(self.values) == len(self.rows) and all(len(row) == len(self.columns) for row in self.values)


@dataclass(frozen=True)
class Stretch:
    """From `first` to `last`, both included. A thin one is a line: something is there, but nothing follows it."""

    first: int
    last: int
    state: str
    hint: str = ""
    thin: bool = False


@dataclass(frozen=True)
class Timeline:
    """A row for each thing and when it was in which state; states have colours in their order."""

    title: str
    x_label: str
    length: int
    states: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Stretch, ...]], ...]
    hint: str = ""

    def __post_init__(self) -> None:
        assert all(stretch.state in self.states for _, stretches in self.rows for stretch in stretches)


@dataclass(frozen=True)
class Figures:
    """A few numbers to show first, with their names."""

    items: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Callout:
    kind: Literal["note", "warn", "good"]
    text: str


@dataclass(frozen=True)
class Code:
    """Something to copy, with a button for it."""

    text: str


@dataclass(frozen=True)
class Picture:
    content: bytes
    kind: Literal["png", "jpeg", "webp"]
    caption: str
    alt: str


Chart = LineChart | ScatterChart | BarChart
Element = Table | Chart | Matrix | Timeline | Figures | Paragraph | Callout | Code | Picture


@dataclass(frozen=True)
class Section:
    title: str
    elements: tuple[Element, ...]


@dataclass(frozen=True)
class Page:
    title: str
    subtitle: str
    sections: tuple[Section, ...]
