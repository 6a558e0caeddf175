"""The cells of a table, for all renderers alike, and charts as tables: for Markdown, screen readers and pages without
scripts.
"""

from bisect import bisect_left

from yolofast.pages.elements import (
    BarChart,
    Cell,
    Chart,
    LineChart,
    Marked,
    Matrix,
    ScatterChart,
    Series,
    Table,
    Timeline,
)
from yolofast.pages.text import known, shown

_COLUMNS = 8


def cell_value(cell: Cell) -> str | float | None:
    return cell.value if isinstance(cell, Marked) else cell


def cell_text(cell: Cell) -> str:
    value = cell_value(cell)
    return value if isinstance(value, str) else shown(value)


def is_number(cell: Cell) -> bool:
    """Unknown values too: they do not turn a column of numbers into one of text."""
    return not isinstance(cell_value(cell), str)


def chart_table(chart: Chart) -> Table:
    match chart:
        case LineChart():
            return _lines(chart)
        case ScatterChart():
            points = ((point.name, point.group, known(point.x), known(point.y)) for point in chart.points)
            return Table(("", "group", chart.x_label, chart.y_label), tuple(points), chart.title)
        case BarChart():
            return _bars(chart)


def matrix_table(matrix: Matrix) -> Table:
    heading = f"{matrix.row_label} ↓ {matrix.column_label} →"
    rows: list[tuple[Cell, ...]] = [(name, *values) for name, values in zip(matrix.rows, matrix.values, strict=True)]
    return Table((heading, *matrix.columns), tuple(rows), matrix.title)


def timeline_table(timeline: Timeline) -> Table:
    """How long each was in which state."""
    rows = []
    for name, stretches in timeline.rows:
        total = {
            state: sum(one.last - one.first + 1 for one in stretches if one.state == state) for state in timeline.states
        }
        rows.append((name, *(total[state] or None for state in timeline.states)))
    return Table((timeline.x_label, *timeline.states), tuple(rows), timeline.title)


def _lines(chart: LineChart) -> Table:
    """A row per curve, at a few x spread over the whole range."""
    every = sorted({x for series in chart.series for x in series.x if known(x) is not None})
    count = min(_COLUMNS, len(every))
    chosen = sorted({every[round(i * (len(every) - 1) / max(1, count - 1))] for i in range(count)})
    rows = tuple((series.name, *(_value_at(series, x, every) for x in chosen)) for series in chart.series)
    titles = (chart.x_names[int(x) - 1] if chart.x_names else shown(x) for x in chosen)
    return Table((f"{chart.y_label} at {chart.x_label}", *titles), rows, chart.title)


def _value_at(series: Series, x: float, every: list[float]) -> Cell:
    """At the nearest x the curve has, if that is no further than a hundredth of the chart."""
    if not series.x:
        return None
    order = sorted(range(len(series.x)), key=lambda place: series.x[place])
    xs = [series.x[place] for place in order]
    at = bisect_left(xs, x)
    near = min((place for place in (at - 1, at) if 0 <= place < len(xs)), key=lambda place: abs(xs[place] - x))
    if abs(xs[near] - x) > (every[-1] - every[0]) / 100:
        return None
    return known(series.y[order[near]])


def _bars(chart: BarChart) -> Table:
    names = tuple(dict.fromkeys(name for bar in chart.bars for name, _ in bar.parts))
    rows = []
    for bar in chart.bars:
        parts = dict(bar.parts)
        rows.append((bar.name, *(parts.get(name) for name in names), sum(parts.values())))
    return Table((chart.unit, *names, "sum"), tuple(rows), chart.title)
