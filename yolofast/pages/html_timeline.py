"""A timeline as an SVG that is whole without scripts; what a stretch is, is said where it is pointed at."""

from yolofast.pages.elements import Stretch, Timeline
from yolofast.pages.text import html_text, shown

_COLOURS = 12
_WIDTH, _RIGHT, _TOP, _BOTTOM = 1000, 12, 4, 34
_LETTER = 6.6
_ROW, _BAR, _THIN = 17, 12, 3
_TICKS = 8
_LONGEST_NAME = 28


def timeline_html(timeline: Timeline) -> str:
    left = 14 + _LETTER * min(_LONGEST_NAME, max((len(name) for name, _ in timeline.rows), default=1))
    height = _TOP + _ROW * len(timeline.rows) + _BOTTOM
    scale = (_WIDTH - _RIGHT - left) / max(1, timeline.length)
    rows = "".join(_row(timeline, place, left, scale) for place in range(len(timeline.rows)))
    drawn = (
        f'<svg class="yf-svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{html_text(timeline.title)}">'
        f"{_axis(timeline, left, scale, height - _BOTTOM)}{rows}</svg>"
    )
    title = f'<div class="yf-title">{html_text(timeline.title)}</div>'
    legend = f'<div class="yf-legend">{"".join(map(_entry, range(len(timeline.states)), timeline.states))}</div>'
    hint = f'<p class="hint">{html_text(timeline.hint)}</p>' if timeline.hint else ""
    return f'<figure class="timeline">{title}{legend}<div class="scroll" tabindex="0">{drawn}</div>{hint}</figure>'


def _entry(place: int, state: str) -> str:
    sample = (
        '<svg width="16" height="10" aria-hidden="true"><rect width="14" height="10" rx="2" class="yf-fill"/></svg>'
    )
    return f'<span class="yf-entry yf-c{place % _COLOURS}">{sample}<span>{html_text(state)}</span></span>'


def _row(timeline: Timeline, place: int, left: float, scale: float) -> str:
    name, stretches = timeline.rows[place]
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    top = _TOP + _ROW * place
    whole = f"<title>{html_text(name)}</title>"
    text = f'<text class="yf-name" x="{left - 8:g}" y="{top + 12}" text-anchor="end">{html_text(short)}{whole}</text>'
    bars = (_stretch(one, timeline.states.index(one.state), top, left, scale) for one in stretches)
    return f"<g>{text}{''.join(bars)}</g>"


def _stretch(one: Stretch, colour: int, top: float, left: float, scale: float) -> str:
    high = _THIN if one.thin else _BAR
    x, width = left + scale * (one.first - 1), max(0.8, scale * (one.last - one.first + 1))
    place = f'x="{x:.1f}" y="{top + (_ROW - high) / 2:g}" width="{width:.1f}" height="{high}"'
    thin = " yf-thin" if one.thin else ""
    hint = f"<title>{html_text(one.hint)}</title>" if one.hint else ""
    return f'<rect class="yf-part yf-c{colour % _COLOURS}{thin}" {place}>{hint}</rect>'


def _axis(timeline: Timeline, left: float, scale: float, bottom: float) -> str:
    """Ticks at round numbers."""
    rough = max(1, timeline.length / _TICKS)
    power = 10 ** (len(str(int(rough))) - 1)
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough)
    marks = [1, *range(step, timeline.length + 1, step)] if timeline.length else []
    parts = [f'<line class="yf-axis" x1="{left:g}" x2="{_WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}"/>']
    for mark in dict.fromkeys(marks):
        x = left + scale * (mark - 0.5)
        parts.append(f'<line class="yf-grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>')
        parts.append(f'<text class="yf-tick" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{shown(mark)}</text>')
    middle = (left + _WIDTH - _RIGHT) / 2
    label = html_text(timeline.x_label)
    parts.append(f'<text class="yf-label" x="{middle:g}" y="{bottom + 30}" text-anchor="middle">{label}</text>')
    return "".join(parts)
