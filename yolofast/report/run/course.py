"""The parts of a report that say how training went: figures, curves, time and memory."""

from collections.abc import Mapping

import numpy as np

from yolofast.files.known_numbers import known_number
from yolofast.pages.elements import (
    Bar,
    BarChart,
    Callout,
    Cell,
    Chart,
    Element,
    Figures,
    LineChart,
    Paragraph,
    Series,
    Table,
)
from yolofast.runs import layout
from yolofast.runs.reader import RunFolder
from yolofast.runs.table import Floats
from yolofast.words import duration


def summary(run: RunFolder) -> tuple[Element, ...]:
    best, memory = run.best_row(), _memory(run)
    seconds = float(run.results.numbers(layout.TIME.name)[-1])
    items: list[tuple[str, Cell]] = []
    if best is not None:
        shown = [one for one in (*layout.metrics(), *layout.MOTION_METRICS) if one.name in run.results]
        items += [(column.title, float(run.column(column.name)[best])) for column in shown]
        items.append(("best epoch", f"{run.epochs()[best]:.0f} of {len(run.results)}"))
    items += [(layout.TIME.title, duration(seconds)), (_speed(run), _mean_of_time(run, layout.SPEED))]
    if memory > 0:
        items.append(("GPU memory", f"{memory:.2f} GiB"))
    notes = [Callout("warn", problem) for problem in run.problems]
    if not run.summary:
        notes.append(Callout("note", "The run has not come to its end: it is still running, or was interrupted."))
    return (Figures(tuple(items)), *notes)


def curves(run: RunFolder) -> tuple[Element, ...]:
    charts = [
        _chart(run, title, "score", {column.title: column.name for column in columns})
        for title, columns in layout.metric_charts().items()
    ]
    for term in layout.terms_in(run.results.text):
        lines = {column.title: column.of_term(term) for column in (layout.TRAIN_LOSS, layout.VAL_LOSS)}
        charts.append(_chart(run, f"Loss: {layout.term_title(term)}", "loss", lines, dashed=layout.VAL_LOSS.title))
    charts.append(_chart(run, layout.RATES[0].chart, "rate", {column.title: column.name for column in layout.RATES}))
    return tuple(chart for chart in charts if chart is not None)


def batches(run: RunFolder) -> tuple[Element, ...]:
    """Every batch of training, for those who ask where a bump comes from."""
    table = run.batches
    if table is None or layout.BATCH_LOSS not in table:
        return ()
    charts: list[Element] = []
    for column, title in ((layout.BATCH_LOSS, "Loss of every batch"), ("gradient_norm", "Gradient norm")):
        if column in table:
            values = tuple(table.numbers(column).tolist())
            series = Series(column.replace("_", " "), tuple(range(1, len(values) + 1)), values)
            is_loss = column == layout.BATCH_LOSS
            charts.append(LineChart(title, "batch", "loss" if is_loss else "norm", (series,), log_y=not is_loss))
    return (*charts, Paragraph("Why a loss fluctuates, and what to change: yolofast diagnose on this folder."))


def timing(run: RunFolder) -> tuple[Element, ...]:
    rows: list[tuple[Cell, ...]] = [("training", duration(float(run.results.numbers(layout.TIME.name)[-1])))]
    if (wall := known_number(run.summary.get("wall_seconds"))) is not None:
        rows.append(("with evaluation, checkpoints and pictures (last process)", duration(wall)))
    rows.append((f"{_speed(run)}, all epochs", _mean_of_time(run, layout.SPEED)))
    rows.append(("% of the time spent waiting for data", 100 * _mean_of_time(run, layout.WAIT)))
    if (busy := known_number(run.profile.get("gpu_busy"))) is not None:
        rows.append(("% of the time the GPU was busy", 100 * busy))
    columns = [layout.SPEED, layout.WAIT]
    if (memory := _memory(run)) > 0:
        rows.append(("largest GPU memory reserved", f"{memory:.2f} GiB"))
        columns.append(layout.MEMORY)
    titles = {layout.SPEED: _speed(run)}
    charts = [
        _chart(run, column.chart, titles.get(column, column.title), {titles.get(column, column.title): column.name})
        for column in columns
    ]
    elements: list[Element] = [Table(("", ""), tuple(rows)), *(chart for chart in charts if chart is not None)]
    if (profile := run.step_profile()) is not None:
        bars: dict[str, list[tuple[str, float]]] = {}
        for phase in profile.phases:
            where = f"parallel to it, {phase.parallel}" if phase.parallel else f"gear {profile.gear or '?'}"
            bars.setdefault(where, []).append((phase.name, phase.mean_ms))
        shown = tuple(Bar(where, tuple(parts)) for where, parts in bars.items())
        elements.append(BarChart("Where the time of a step goes", "ms", shown))
    return tuple(elements)


def _chart(run: RunFolder, title: str, y_label: str, columns: Mapping[str, str], dashed: str = "") -> Chart | None:
    """Of those columns that have a value at all."""
    x = tuple(run.epochs().tolist())
    series = [
        Series(name, x, tuple(run.column(column).tolist()), dashed=name == dashed)
        for name, column in columns.items()
        if not np.isnan(run.column(column)).all()
    ]
    return LineChart(title, "epoch", y_label, tuple(series)) if series else None


def _speed(run: RunFolder) -> str:
    """Motion models learn from histories, not from images."""
    is_motion = any(column.name in run.results for column in layout.MOTION_METRICS)
    return "samples/s" if is_motion else layout.SPEED.title


def _mean_of_time(run: RunFolder, column: layout.Column) -> float:
    """Epochs count by how long they took; those of which either is unknown do not."""
    clock, values = _finite(run.results.numbers(layout.TIME.name)), _finite(run.column(column.name))
    spent = np.diff(clock, prepend=0.0)
    known = np.isfinite(values) & (spent > 0)
    return float(np.average(values[known], weights=spent[known])) if known.any() else float("nan")


def _memory(run: RunFolder) -> float:
    """The most, in GiB; 0 without a GPU."""
    return float(np.nan_to_num(_finite(run.column(layout.MEMORY.name))).max(initial=0.0))


def _finite(values: Floats) -> Floats:
    """Beyond all bounds is unknown."""
    return np.where(np.isfinite(values), values, np.nan)
