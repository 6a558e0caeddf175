"""A page as one HTML file that needs nothing else: styles, scripts, values and pictures are inside.

The content security policy names the hashes of exactly these styles and scripts and allows no connection. So even text
that slipped through unescaped could neither run nor load anything.

`chart.js` draws the charts, from JSON. Long curves are thinned, because a page would otherwise hold megabytes that no
screen can show: of every stretch the lowest and the highest point are kept, so peaks stay, and gaps stay gaps.
"""

import base64
import re
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from typing import Any

from yolofast.pages.elements import BarChart, Chart, Element, LineChart, Page, Picture, ScatterChart, Section, Series
from yolofast.pages.html_elements import element_html
from yolofast.pages.text import html_text, known, script_json

MOST_POINTS = 3000
_SECTIONS_WITHOUT_CONTENTS = 4
_CHARTS = (LineChart, ScatterChart, BarChart)


def render_page(page: Page) -> str:
    style, script = web_file("page.css"), page_script()
    names = list(_anchors(page.sections))
    charts: list[Chart] = []
    body = "".join(_section(section, name, charts) for section, name in zip(page.sections, names, strict=True))
    contents = _contents(page.sections, names) if len(names) > _SECTIONS_WITHOUT_CONTENTS else ""
    values = script_json([chart_spec(chart) for chart in charts])
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="yolofast">
<title>{html_text(page.title)}</title>
<style>{style}</style>
</head>
<body>
<header class="top"><div><h1>{html_text(page.title)}</h1><p class="subtitle">{html_text(page.subtitle)}</p></div>
<button type="button" id="theme" aria-label="light or dark" title="light or dark">◐</button></header>
<div class="{"columns" if contents else "column"}">{contents}<main>{body}</main></div>
<script type="application/json" id="charts">{values}</script>
<script>{script}</script>
</body>
</html>
"""


def web_file(name: str) -> str:
    """One of the packaged styles and scripts; `watch` needs them too."""
    return files("yolofast.pages").joinpath("web", name).read_text(encoding="utf-8")


def page_script() -> str:
    """The one script that a page runs."""
    return web_file("chart.js") + web_file("page.js")


def source_hash(text: str) -> str:
    """How a policy names a style or a script."""
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _policy(style: str, script: str) -> str:
    sources = f"style-src {source_hash(style)}; script-src {source_hash(script)}; img-src data:"
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"


def _anchors(sections: tuple[Section, ...]) -> Iterator[str]:
    """Readable and different from one another, whatever the titles are."""
    for number, section in enumerate(sections, 1):
        words = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-")[:40]
        yield f"s{number}-{words}" if words else f"s{number}"


def _contents(sections: tuple[Section, ...], names: list[str]) -> str:
    items = (
        f'<li><a href="#{name}">{html_text(section.title)}</a></li>'
        for section, name in zip(sections, names, strict=True)
    )
    return f'<nav class="contents" aria-label="contents"><ol>{"".join(items)}</ol></nav>'


def _section(section: Section, name: str, charts: list[Chart]) -> str:
    """Charts, and pictures, that follow one another stand side by side where there is room."""
    parts = []
    for layout, group in groupby(section.elements, _layout):
        content = ""
        for element in group:
            charts += [element] if isinstance(element, _CHARTS) else []
            content += element_html(element, len(charts) - 1)
        parts.append(f'<div class="{layout}">{content}</div>' if layout else content)
    return f'<section id="{name}"><h2>{html_text(section.title)}</h2>{"".join(parts)}</section>'


def _layout(element: Element) -> str:
    return "charts" if isinstance(element, _CHARTS) else "pictures" if isinstance(element, Picture) else ""


def chart_spec(chart: Chart) -> dict[str, Any]:
    """A chart as plain values for JSON."""
    match chart:
        case LineChart():
            return _spec("line", chart, "series", [_series(one) for one in chart.series])
        case ScatterChart():
            points = [{**asdict(point), "x": known(point.x), "y": known(point.y)} for point in chart.points]
            return _spec("scatter", chart, "points", points)
        case BarChart():
            bars = [{"name": bar.name, "parts": [[n, known(value)] for n, value in bar.parts]} for bar in chart.bars]
            return _spec("bar", chart, "bars", bars)


def _spec(kind: str, chart: Chart, field: str, content: list[Any]) -> dict[str, Any]:
    return {"kind": kind, **{name: value for name, value in vars(chart).items() if name != field}, field: content}


def _series(series: Series) -> dict[str, Any]:
    usable = [place for place in range(len(series.x)) if known(series.x[place]) is not None]
    usable.sort(key=lambda place: series.x[place])
    places = [usable[place] for place in thinned([known(series.y[place]) for place in usable])]
    values = {name: getattr(series, name) for name in ("name", "group", "dashed")}
    values["x"] = [int(x) if x == int(x) else float(x) for x in (series.x[i] for i in places)]
    for edge in ("y", "low", "high"):
        column = getattr(series, edge)
        values[edge] = None if column is None else [_rounded(column[i]) for i in places]
    return values


def thinned(values: list[float | None]) -> list[int]:
    """Places of the values to keep, in order."""
    if len(values) <= MOST_POINTS:
        return list(range(len(values)))
    stretch = -(-len(values) * 4 // MOST_POINTS)  # up to four are kept of each
    kept: set[int] = {0, len(values) - 1}
    for start in range(0, len(values), stretch):
        places = range(start, min(start + stretch, len(values)))
        there = {place: value for place in places if (value := values[place]) is not None}
        gaps = [place for place in places if place not in there]
        kept |= {places[0], *gaps[:1]}
        if there:
            kept |= {min(there, key=there.__getitem__), max(there, key=there.__getitem__)}
    return sorted(kept)


def _rounded(value: float | None) -> float | None:
    """Six digits are more than a screen shows, and half the bytes."""
    value = known(value)
    return None if value is None else float(f"{value:.6g}")
