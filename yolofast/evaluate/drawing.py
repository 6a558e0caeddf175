"""The drawing of curves and of the confusion matrix, from plain arrays and rows.

Nothing here needs torch, so a process that only draws has it in memory within half a second (`files/helper.py`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.files.atomic_file import write_output, write_whole
from yolofast.runs.layout import EPOCH, MOTION_METRICS, TRAIN_LOSS, VAL_LOSS, columns_from, columns_of, terms_in


def blank(size: tuple[int, int]) -> tuple[Any, Any, Any]:
    # Imported here, because it takes longer than evaluating a small data set. Without pyplot nothing needs a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=size, dpi=150, layout="constrained")
    return figure, FigureCanvasAgg(figure), figure.subplots()


def encoded(canvas: Any) -> bytes:
    canvas.draw()
    pixels = cv2.cvtColor(np.asarray(canvas.buffer_rgba()), cv2.COLOR_RGBA2BGR)
    return cv2.imencode(".png", pixels)[1].tobytes()


def plain(name: str) -> str:
    return name.replace("$", r"\$")  # which would start a formula


# More lines than this have colours too alike, and more numbers than this cannot be read.
_MOST_NAMED_CURVES = 20
_MOST_NAMED_CLASSES = 40
_MOST_NUMBERED_CLASSES = 30


def draw_curves(
    path: Path, grid: npt.NDArray[np.float64], values: npt.NDArray[np.float64], names: Sequence[str],
    axes: tuple[str, str], title: str,
) -> None:  # fmt: skip
    """A curve for each class, and their mean."""
    figure, canvas, plot = blank((9, 6))
    named = 0 < len(values) <= _MOST_NAMED_CURVES
    for row, name in zip(values, names, strict=True):
        style: dict[str, Any] = {"label": plain(name)} if named else {"color": "grey", "alpha": 0.5}
        plot.plot(grid, row, linewidth=1, **style)
    if len(values):
        plot.plot(grid, values.mean(axis=0), linewidth=3, color="tab:blue", label=title)
        figure.legend(loc="outside right upper", fontsize=8)
    plot.set(xlim=(0, 1), ylim=(0, 1), xlabel=axes[0], ylabel=axes[1])
    write_output(path, encoded(canvas))


def draw_matrix(path: Path, shares: npt.NDArray[np.float64], names: Sequence[str]) -> None:
    figure, canvas, plot = blank((12, 10))
    shown = np.ma.masked_less(shares, 0.005)  # what would round to 0 stays white
    figure.colorbar(plot.imshow(shown, cmap="Blues", vmin=0, vmax=1), ax=plot)
    plot.set(xlabel="true", ylabel="predicted", title="share of each true class that was taken for …")
    if len(names) <= _MOST_NAMED_CLASSES:
        labels = [*map(plain, names), "background"]
        plot.set_xticks(np.arange(len(labels)), labels, rotation=90, fontsize=8)
        plot.set_yticks(np.arange(len(labels)), labels, fontsize=8)
    if len(names) <= _MOST_NUMBERED_CLASSES:
        for row, column in np.argwhere(~shown.mask):
            colour = "white" if shares[row, column] > 0.5 else "black"
            plot.text(column, row, f"{shares[row, column]:.2f}", ha="center", va="center", color=colour, fontsize=7)
    write_output(path, encoded(canvas))


def panels_of(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The columns to draw above and below: losses of training above those of validation, then the metrics."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    terms = terms_in(names)
    drawn = [column.name for _, column in columns_of(names) if column.drawn and column.source == "metric"]
    half = (len(drawn) + 1) // 2
    above, below = ([pattern.of_term(term) for term in terms] for pattern in (TRAIN_LOSS, VAL_LOSS))
    return above + drawn[:half], below + drawn[half:]


def curves_picture(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The picture, from the rows of `results.csv`; what was not measured in an epoch is left out of the curve."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    above, below = panels_of(rows)
    across, scores = len(above), {column.name for column in (*columns_from("metric"), *MOTION_METRICS)}
    figure = Figure(figsize=(3 * across, 6), dpi=120, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    panels = figure.subplots(2, across).ravel()
    for empty in panels[across + len(below) :]:  # of an odd number of metrics
        empty.set_axis_off()
    for panel, name in zip(panels, above + below, strict=False):
        measured = [(row[EPOCH.name] + 1, row[name]) for row in rows if isinstance(row.get(name), int | float)]
        epochs, values = zip(*measured, strict=True) if measured else ((), ())
        panel.plot(epochs, values, marker="." if len(values) < 100 else None, linewidth=2, color="tab:blue")
        panel.set_title(name.replace("(B)", "").replace("(M)", ""), fontsize=11)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(alpha=0.3)
        if name in scores:
            panel.set_ylim(0, max(1.05 * max(values, default=0.0), 0.01))
    figure.supxlabel("epoch", fontsize=10)
    return encoded(canvas)


def draw_course(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    write_whole(path, curves_picture(rows))
