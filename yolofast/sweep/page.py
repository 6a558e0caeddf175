"""`sweep.html`: the best trial as a command, what each setting does, accuracy against time, and all curves."""

import math
from collections.abc import Iterator

from yolofast.pages.elements import (
    Callout,
    Cell,
    Code,
    Element,
    Figures,
    LineChart,
    Page,
    Paragraph,
    Point,
    ScatterChart,
    Section,
    Series,
    Table,
)
from yolofast.sweep.results import Effect, SweepResults, TrialRow, differing
from yolofast.sweep.trials import shown
from yolofast.words import counted

_MOST_LINES = 60
"""Curves that can still be told apart, or be drawn at all."""


def page_of(found: SweepResults) -> Page:
    experiment = found.sweep.experiment
    sections = (
        Section("The best trial", tuple(_best(found))),
        Section("What each setting does", tuple(_effects(found))),
        Section("Accuracy and time", tuple(_pareto(found))),
        Section("Settings side by side", tuple(_parallel(found))),
        Section("Curves", tuple(_curves(found))),
        Section("Trials", tuple(_listing(found))),
    )
    subtitle = f"{counted(len(found.rows), 'trial')}, judged by {experiment.metric.title} of their best epochs"
    return Page(f"Sweep {found.sweep.path.name}", subtitle, tuple(one for one in sections if one.elements))


def _best(found: SweepResults) -> Iterator[Element]:
    best, metric = found.best, found.sweep.experiment.metric.title
    for row in found.rows:
        if row.trial.problem:
            yield Callout("warn", f"{row.trial.name} failed: {row.trial.problem}")
    if best is None:
        yield Paragraph("No trial has a result yet.")
        return
    hours = sum(row.own_hours for row in found.rows) / found.sweep.per_device
    price = found.sweep.experiment.price
    items: list[tuple[str, Cell]] = [(metric, best.progress.best()), ("best epoch", best.progress.best_epoch)]
    items += [("hours of this trial", best.progress.hours), ("hours of devices", hours)]
    items += [] if price is None else [("price of all", price * hours)]
    yield Figures(tuple(items))
    line = found.lineage(best)
    if len(line) > 1:
        yield Paragraph(
            f"{best.trial.name} is a copy: its values changed on the way, and its weights are in its folder."
        )
        rows = tuple((one.name, one.born, differing(one.varied)) for one in line)
        yield Table(("trial", "from epoch", "values"), rows)
        yield Paragraph("To train with its last values from the beginning:")
    else:
        yield Paragraph(f"{best.trial.name}: {differing(best.trial.varied)}. To train it again:")
    yield Code(found.command)
    seeds = len(found.sweep.experiment.seeds)
    if seeds < 3:
        text = (
            f"With {counted(seeds, 'seed')} chance cannot be told from an effect: `seeds: 3` trains each three times."
        )
        yield Callout("note", text.replace("`", ""))


def _effects(found: SweepResults) -> Iterator[Element]:
    effects, metric = found.effects(), found.sweep.experiment.metric.title
    if not effects:
        return
    yield Paragraph(
        f"Mean {metric} of the trials with a value, whatever their other settings are, with its 95 % interval. "
        "Trials that were not continued count with what they had reached."
    )
    rows = tuple(
        (one.setting, one.value, one.count, one.mean, one.half if math.isfinite(one.half) else None, one.best)
        for one in effects
    )
    yield Table(("setting", "value", "trials", "mean", "±", "best"), rows, sortable=True)
    for name in dict.fromkeys(one.setting for one in effects):
        own = [one for one in effects if one.setting == name]
        words = () if all(one.number is not None for one in own) else tuple(one.value for one in own)
        yield LineChart(f"{metric} over {name}", name, metric, _lines(own, words), x_names=words)


def _lines(own: list[Effect], words: tuple[str, ...]) -> tuple[Series, ...]:
    x = tuple(float(place) if words else one.number or 0.0 for place, one in enumerate(own, 1))
    half = [one.half if math.isfinite(one.half) else 0.0 for one in own]
    low, high = (tuple(one.mean + sign * h for one, h in zip(own, half, strict=True)) for sign in (-1, 1))
    mean = Series("mean", x, tuple(one.mean for one in own), "mean", low=low, high=high)
    return mean, Series("best", x, tuple(one.best for one in own), "best", dashed=True)


def _pareto(found: SweepResults) -> Iterator[Element]:
    metric, front = found.sweep.experiment.metric.accuracy_title, {row.trial.name for row in found.front}
    known = [row for row in found.rows if math.isfinite(row.progress.best_accuracy())]
    axes = [("hours", [row.progress.hours for row in known])]
    if found.sweep.experiment.price is not None:
        axes.append(("price", [row.cost or 0.0 for row in known]))
    for title, values in axes if known else ():
        points = tuple(
            Point(
                row.trial.name,
                x,
                row.progress.best_accuracy(),
                row.state,
                row.trial.name in front,
                differing(row.trial.varied),
            )
            for row, x in zip(known, values, strict=True)
        )
        yield ScatterChart(f"{metric} and {title}; the line is the Pareto front", title, metric, points)


def _parallel(found: SweepResults) -> Iterator[Element]:
    """Parallel coordinates: an axis for each setting and the metric, each from its lowest to its highest value."""
    rows = [row for row in found.rows if math.isfinite(row.progress.best()) and not row.trial.problem][:_MOST_LINES]
    names = list(dict.fromkeys(name for row in rows for name in row.trial.varied))
    if len(rows) < 2 or not names:
        return
    axes = [_axis(name, rows) for name in names]
    best = [row.progress.best() for row in rows]
    axes.append((f"{found.sweep.experiment.metric.title}: {min(best):.4g} to {max(best):.4g}", _shares(best)))
    legend = "; ".join(title for title, _ in axes)
    x = tuple(float(place) for place in range(1, len(axes) + 1))
    series = tuple(
        Series(
            row.trial.name,
            x,
            tuple(shares[place] for _, shares in axes),
            "best fifth" if 5 * place < len(rows) else "others",
        )
        for place, row in enumerate(rows)
    )
    yield Paragraph(f"Each axis from its lowest value to its highest: {legend}.")
    yield LineChart(
        "Trials across their settings", "setting", "lowest to highest", series,
        x_names=(*names, found.sweep.experiment.metric.title),
    )  # fmt: skip


def _axis(name: str, rows: list[TrialRow]) -> tuple[str, list[float | None]]:
    values = [row.trial.varied.get(name) for row in rows]
    numbers = [float(one) for one in values if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) == len(values):
        return f"{name}: {min(numbers):g} to {max(numbers):g}", _shares(numbers)
    words = sorted({shown(one) for one in values})
    places = [float(words.index(shown(one))) for one in values]
    return f"{name}: {', '.join(words)}", _shares(places)


def _shares(values: list[float]) -> list[float | None]:
    low, high = min(values), max(values)
    return [0.5 if high == low else (one - low) / (high - low) for one in values]


def _curves(found: SweepResults) -> Iterator[Element]:
    metric = found.sweep.experiment.metric.accuracy_title
    rows = [row for row in found.rows if row.progress.epochs][:_MOST_LINES]
    series = tuple(
        Series(row.trial.name, tuple(map(float, range(1, row.progress.epochs + 1))), row.progress.curve) for row in rows
    )
    if series:
        yield LineChart(f"{metric} of each trial", "epoch", metric, series)


def _listing(found: SweepResults) -> Iterator[Element]:
    names = list(dict.fromkeys(name for row in found.rows for name in row.trial.varied))
    has_price = found.sweep.experiment.price is not None
    columns = (
        "trial",
        *names,
        found.sweep.experiment.metric.title,
        "best epoch",
        "epochs",
        "hours",
        *(["price"] * has_price),
        "state",
    )
    rows = tuple(_cells(row, names, has_price) for row in found.rows)
    yield Table(columns, rows, "The best first; folders begin with the trial's number", sortable=True)


def _cells(row: TrialRow, names: list[str], has_price: bool) -> tuple[Cell, ...]:
    progress, varied = row.progress, row.trial.varied
    best = progress.best()
    return (
        row.trial.name.partition("-")[0],  # its settings have columns of their own
        *(shown(varied[name]) if name in varied else "" for name in names),
        None if math.isnan(best) else best, progress.best_epoch, f"{progress.epochs} of {row.epochs_planned}",
        progress.hours, *([row.cost] * has_price), row.state,
    )  # fmt: skip
