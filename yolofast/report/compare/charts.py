"""The charts of a comparison, with a band where a kind of run was repeated, and the table of its classes.

Of many kinds the table shows the first, the last and the range of all: with a column for each, words would be broken
letter by letter on paper. JSON has every figure.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from yolofast.pages.elements import (
    Bar,
    BarChart,
    Cell,
    Chart,
    Element,
    LineChart,
    Marked,
    Paragraph,
    Point,
    ScatterChart,
    Series,
    Table,
)
from yolofast.report.compare import words
from yolofast.report.compare.compared_run import MAP
from yolofast.report.compare.comparison import Comparison
from yolofast.report.compare.figures import ComparedClass
from yolofast.report.compare.kinds import KindCurves
from yolofast.report.compare.money import AtTheSameTime, Guess
from yolofast.report.logs.history import Floats
from yolofast.runs.reader import StepProfile

_SIDE_BY_SIDE = 5
"""Kinds of run that have columns of their own in the table of classes."""


def curve_charts(found: Comparison, columns: Sequence[str]) -> Iterator[Chart]:
    """One per column that any run has."""
    for name in columns:
        known = [curve for curve in found.curves if np.isfinite(curve.column(name)).any()]
        if known:
            band = "The band is a standard deviation." if any(name in curve.std for curve in known) else ""
            series = tuple(_series(curve, name, curve.epoch.astype(np.float64)) for curve in known)
            yield LineChart(name, "epoch", name, series, hint=band)


def time_chart(found: Comparison) -> LineChart:
    """Accuracy by the clock; what is extrapolated is dashed, with its range as a band."""
    series = [_series(curve, MAP, curve.seconds / 3600) for curve in found.curves if curve.seconds is not None]
    guesses = [_guessed(one, one.guess, found) for one in found.at_the_same_time if one.guess is not None]
    hint = "Dashed: extrapolated, not measured; the band is how far it may be off." if guesses else ""
    return LineChart("mAP50-95 over hours", "hours", MAP, (*series, *guesses), hint=hint)


def _guessed(one: AtTheSameTime, guess: Guess, found: Comparison) -> Series:
    end = next(cost.hours for cost in found.costs if cost.group == one.group)
    name = f"{one.group}, extrapolated to the end of {one.finished}"
    y, low, high = ((one.reached, value) for value in (guess.value, guess.low, guess.high))
    return Series(name, (end, one.hours), y, one.group, dashed=True, low=low, high=high)


def _series(curve: KindCurves, name: str, x: Floats) -> Series:
    values = curve.column(name)
    if name not in curve.std:
        return Series(curve.name, tuple(x.tolist()), _known(values), curve.name)
    # Neither losses nor scores are below 0, however much they are spread.
    low, high = (_known((values + sign * curve.std[name]).clip(min=0)) for sign in (-1, 1))
    return Series(curve.name, tuple(x.tolist()), _known(values), curve.name, low=low, high=high)


def _known(values: Floats) -> tuple[float | None, ...]:
    return tuple(value if np.isfinite(value) else None for value in values.tolist())


def cost_chart(found: Comparison) -> ScatterChart:
    points = tuple(Point(one.group, one.hours, one.accuracy, one.group, one.on_front) for one in found.costs)
    front = "; the line is the Pareto front" if any(one.on_front for one in found.costs) else ""
    return ScatterChart(f"accuracy and time{front}", "hours", "mAP50-95", points)


def bar_chart(profiled: Sequence[tuple[str, StepProfile]]) -> BarChart:
    bars = tuple(
        Bar(
            f"{name}, {profile.gear}" if profile.gear else name,
            tuple((phase.name, phase.mean_ms) for phase in profile.phases if not phase.parallel),
        )
        for name, profile in profiled
    )
    return BarChart("a step by its phases", "ms", bars)


def class_elements(found: Comparison, names: Sequence[str]) -> Iterator[Element]:
    if not found.classes:
        return
    yield Paragraph(_gains(found.classes, names))
    shown, caption = range(len(names)), ""
    extremes: tuple[str, ...] = ()
    if len(names) > _SIDE_BY_SIDE:
        shown, extremes = range(0, len(names), len(names) - 1), ("lowest of all", "highest of all")
        caption = f"The first and the last of {len(names)} kinds, and the range of AP50-95; --json has every figure."
    ap, ap50 = ([f"{score} {names[place]}" for place in shown] for score in ("AP50-95", "AP50"))
    rows = tuple(
        (
            row.name,
            *_scores(row.ap, row.ap_std, shown),
            _gain(row),
            *(_extremes(row.ap, names) if extremes else ()),
            *_scores(row.ap50, row.ap50_std, shown),
        )
        for row in found.classes
    )
    yield Table(("class", *ap, "gain", *extremes, *ap50), rows, caption, sortable=True)


def _gains(rows: Sequence[ComparedClass], names: Sequence[str]) -> str:
    gains = [row.gain for row in rows if row.gain is not None]
    more, fewer = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    sure = sum(row.beyond_spread for row in rows)
    repeated = any(row.ap_std[0] is not None and row.ap_std[-1] is not None for row in rows)
    note = f"{sure} of them by more than both standard deviations together, and only those are marked"
    if not repeated:
        note = "without repeated runs of both none is marked: a class moves more from seed to seed than mAP does"
    return f"From {names[0]} to {names[-1]}, {more} classes gain and {fewer} lose; {note}."


def _extremes(values: Sequence[float | None], names: Sequence[str]) -> tuple[str, str]:
    known = [(value, name) for value, name in zip(values, names, strict=True) if value is not None]
    if not known:
        return words.UNKNOWN, words.UNKNOWN
    (low, lowest), (high, highest) = min(known), max(known)
    return f"{words.number(low, 4)} {lowest}", f"{words.number(high, 4)} {highest}"


def _gain(row: ComparedClass) -> Cell:
    if row.gain is None or not row.beyond_spread:
        return row.gain
    return Marked(row.gain, "best" if row.gain > 0 else "worse")


def _scores(means: Sequence[float | None], stds: Sequence[float | None], places: Sequence[int]) -> list[Cell]:
    return [means[i] if stds[i] is None else words.around(means[i], stds[i], 4) for i in places]
