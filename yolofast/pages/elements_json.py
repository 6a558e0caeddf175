"""Charts as plain values for JSON: what `chart.js` draws, in this page or in one that asks a server for it.

Long curves are thinned here, because a page would otherwise hold megabytes that no screen can show: of every stretch
the lowest and the highest point are kept, so peaks stay, and gaps stay gaps.
"""

from dataclasses import asdict
from typing import Any

from yolofast.pages.elements import BarChart, Chart, LineChart, ScatterChart, Series
from yolofast.pages.numbers import known

MOST_POINTS = 3000


def chart_spec(chart: Chart) -> dict[str, Any]:
    match chart:
        case LineChart():
            return {"kind": "line", **_fields(chart, "series"), "series": [_series(one) for one in chart.series]}
        case ScatterChart():
            points = [{**asdict(point), "x": known(point.x), "y": known(point.y)} for point in chart.points]
            return {"kind": "scatter", **_fields(chart, "points"), "points": points}
        case BarChart():
            bars = [
                {"name": bar.name, "parts": [[name, known(value)] for name, value in bar.parts]} for bar in chart.bars
            ]
            return {"kind": "bar", **_fields(chart, "bars"), "bars": bars}


def _fields(chart: Chart, besides: str) -> dict[str, Any]:
    return {name: value for name, value in vars(chart).items() if name != besides}


def _series(series: Series) -> dict[str, Any]:
    usable = [place for place in range(len(series.x)) if known(series.x[place]) is not None]
    usable.sort(key=lambda place: series.x[place])
    kept = thinned([known(series.y[place]) for place in usable])
    places = [usable[place] for place in kept]
    values = {
        "name": series.name,
        "group": series.group,
        "dashed": series.dashed,
        "x": [_whole(series.x[i]) for i in places],
    }
    for edge in ("y", "low", "high"):
        column = getattr(series, edge)
        values[edge] = None if column is None else [_rounded(column[i]) for i in places]
    return values


def thinned(values: list[float | None], most: int = MOST_POINTS) -> list[int]:
    """Places of the values to keep, in order."""
    if len(values) <= most:
        return list(range(len(values)))
    stretch = -(-len(values) * 4 // most)  # up to four are kept of each
    kept: set[int] = {0, len(values) - 1}
    for start in range(0, len(values), stretch):
        places = range(start, min(start + stretch, len(values)))
        there = [place for place in places if values[place] is not None]
        kept.add(places[0])
        if there:
            kept |= {
                min(there, key=lambda place: values[place] or 0.0),
                max(there, key=lambda place: values[place] or 0.0),
            }
        if len(there) < len(places):
            kept.add(next(place for place in places if values[place] is None))
    return sorted(kept)


def _rounded(value: float | None) -> float | None:
    """Six digits are more than a screen shows, and half the bytes."""
    value = known(value)
    return None if value is None else float(f"{value:.6g}")


def _whole(value: float) -> float:
    return int(value) if value == int(value) else float(value)
