"""The parts of a report that say how training went: figures, curves, time and memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from yolofast.engine.record import terms_of
from yolofast.engine.run_report_files import RunFiles
from yolofast.known_numbers import known_number
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
from yolofast.report.history import Floats, best_place
from yolofast.report.table_file import Columns
from yolofast.words import duration

_MAP50, _MAP = "metrics/mAP50(B)", "metrics/mAP50-95(B)"
_SCORES = {
    "mAP50": _MAP50, "mAP50-95": _MAP, "precision": "metrics/precision(B)", "recall": "metrics/recall(B)",
}  # fmt: skip
_TERMS = {"box": "box", "obj": "objectness", "cls": "class", "l1": "raw boxes (L1)"}


def summary(run: RunFiles) -> tuple[Element, ...]:
    results, best = run.results, best_row(run.results)
    seconds, memory = float(results.numbers("time")[-1]), _memory(results)
    items: list[tuple[str, Cell]] = []
    if best is not None:
        items += [(name, float(_column(results, column)[best])) for name, column in _SCORES.items()]
        items.append(("best epoch", f"{epochs_of(results)[best]:.0f} of {len(results)}"))
    items += [("training time", duration(seconds)), ("img/s", _mean_of_time(results, "img/s"))]
    if memory > 0:
        items.append(("GPU memory", f"{memory:.2f} GiB"))
    notes = [Callout("warn", problem) for problem in run.problems]
    if not run.summary:
        notes.append(Callout("note", "The run has not come to its end: it goes on, or was interrupted."))
    return (Figures(tuple(items)), *notes)


def curves(run: RunFiles) -> tuple[Element, ...]:
    results = run.results
    charts = [_chart(results, "Accuracy", "score", {"mAP50": _MAP50, "mAP50-95": _MAP})]
    charts.append(
        _chart(results, "Precision and recall", "score", {name: _SCORES[name] for name in ("precision", "recall")})
    )
    for term in terms_of([dict.fromkeys(results.text)]):
        name = _TERMS.get(term, term)
        columns = {"training": f"train/{term}_loss", "validation": f"val/{term}_loss"}
        charts.append(_chart(results, f"Loss: {name}", "loss", columns, dashed="validation"))
    charts.append(_chart(results, "Learning rate", "rate", {f"group {group}": f"lr/pg{group}" for group in range(3)}))
    return tuple(chart for chart in charts if chart is not None)


def batches(run: RunFiles) -> tuple[Element, ...]:
    """Every batch of training, for those who ask where a bump comes from."""
    table = run.batches
    if table is None or "total" not in table:
        return ()
    charts: list[Element] = [_per_batch(table, "Loss of every batch", "loss", "total")]
    if "gradient_norm" in table:
        charts.append(_per_batch(table, "Gradient norm", "norm", "gradient_norm", log_y=True))
    return (*charts, Paragraph("Why a loss fluctuates, and what to change: yolofast diagnose on this folder."))


def timing(run: RunFiles) -> tuple[Element, ...]:
    results = run.results
    rows: list[tuple[Cell, ...]] = [("training", duration(float(results.numbers("time")[-1])))]
    if (wall := known_number(run.summary.get("wall_seconds"))) is not None:
        rows.append(("with evaluation, checkpoints and pictures (last process)", duration(wall)))
    rows.append(("images per second, all epochs", _mean_of_time(results, "img/s")))
    rows.append(("% of the time spent waiting for data", 100 * _mean_of_time(results, "data_wait")))
    if (busy := known_number(run.profile.get("gpu_busy"))) is not None:
        rows.append(("% of the time the GPU was busy", 100 * busy))
    columns = {"Speed": ("img/s", "img/s"), "Waiting for data": ("share", "data_wait")}
    if (memory := _memory(results)) > 0:
        rows.append(("largest GPU memory reserved", f"{memory:.2f} GiB"))
        columns["GPU memory"] = ("GiB", "gpu_memory")
    charts = [_chart(results, title, unit, {unit: column}) for title, (unit, column) in columns.items()]
    elements: list[Element] = [Table(("", ""), tuple(rows)), *(chart for chart in charts if chart is not None)]
    return (*elements, *_phases(run.profile))


def best_row(results: Columns) -> int | None:
    """The epoch whose weights are `best.pt`."""
    return best_place(fitness_of(results))


def fitness_of(results: Columns) -> Floats:
    return 0.1 * _column(results, _MAP50) + 0.9 * _column(results, _MAP)


def epochs_of(results: Columns) -> Floats:
    """From 1, as people count."""
    return results.numbers("epoch") + 1


def _phases(profile: Mapping[str, Any]) -> tuple[Element, ...]:
    phases = profile.get("phases")
    if not phases:
        return ()
    bars: dict[str, list[tuple[str, float]]] = {}
    for phase in phases:
        where = f"beside it, {phase['beside']}" if phase.get("beside") else f"gear {profile.get('gear', '?')}"
        bars.setdefault(where, []).append((str(phase["name"]), float(phase["mean_ms"])))
    shown = tuple(Bar(where, tuple(parts)) for where, parts in bars.items())
    return (BarChart("Where the time of a step goes", "ms", shown),)


def _chart(results: Columns, title: str, y_label: str, columns: Mapping[str, str], dashed: str = "") -> Chart | None:
    """Of those columns that have a value at all."""
    x = tuple(epochs_of(results).tolist())
    series = [
        Series(name, x, tuple(_column(results, column).tolist()), dashed=name == dashed)
        for name, column in columns.items()
        if not np.isnan(_column(results, column)).all()
    ]
    return LineChart(title, "epoch", y_label, tuple(series)) if series else None


def _per_batch(table: Columns, title: str, y_label: str, column: str, log_y: bool = False) -> Chart:
    values: Sequence[float] = table.numbers(column).tolist()
    series = Series(column.replace("_", " "), tuple(range(1, len(values) + 1)), tuple(values))
    return LineChart(title, "batch", y_label, (series,), log_y=log_y)


def _column(results: Columns, name: str) -> Floats:
    return results.numbers(name) if name in results else np.full(len(results), np.nan)


def _mean_of_time(results: Columns, name: str) -> float:
    """Epochs count by how long they took; those of which either is unknown do not."""
    clock, values = _finite(results.numbers("time")), _finite(_column(results, name))
    spent = np.diff(clock, prepend=0.0)
    known = np.isfinite(values) & (spent > 0)
    return float(np.average(values[known], weights=spent[known])) if known.any() else float("nan")


def _memory(results: Columns) -> float:
    """The most, in GiB; 0 without a GPU."""
    return float(np.nan_to_num(_finite(_column(results, "gpu_memory"))).max(initial=0.0))


def _finite(values: Floats) -> Floats:
    """Beyond all bounds is unknown."""
    return np.where(np.isfinite(values), values, np.nan)
