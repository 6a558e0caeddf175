"""The charts of a comparison: a curve per kind of run, with a band where it was repeated."""

from collections.abc import Iterator, Sequence

import numpy as np

from yolofast.pages.elements import Bar, BarChart, Chart, LineChart, Point, ScatterChart, Series
from yolofast.report.compare.comparison import Comparison
from yolofast.report.compare.extrapolation import Guess
from yolofast.report.compare.groups import Curves
from yolofast.report.compare.money import AtTheSameTime
from yolofast.report.compare.run import MAP
from yolofast.report.history import Floats
from yolofast.runs.reader import StepProfile


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


def _series(curve: Curves, name: str, x: Floats) -> Series:
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
            tuple((phase.name, phase.mean_ms) for phase in profile.phases if not phase.beside),
        )
        for name, profile in profiled
    )
    return BarChart("a step by its phases", "ms", bars)
