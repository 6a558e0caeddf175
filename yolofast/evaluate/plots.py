"""Pictures of the curves and of the confusion matrix, under the file names YOLOv7 uses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.evaluate.confusion import ConfusionMatrix
from yolofast.evaluate.v7_metrics import GRID, V7Result
from yolofast.files.atomic_file import write_output
from yolofast.runs.layout import FILES


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


def save_plots(
    folder: str | Path, result: V7Result, confusion: ConfusionMatrix, names: Sequence[str]
) -> dict[str, Path]:
    """Draws all five into the folder: `PR_curve.png`, `F1_curve.png`, `P_curve.png`, `R_curve.png` and
    `confusion_matrix.png`.
    """
    curves, present = result.curves, [names[label] for label in result.classes]
    with_ap = [f"{name} {ap:.3f}" for name, ap in zip(present, result.ap[:, 0], strict=True)]
    pictures = {
        FILES.precision_recall_curve: _draw_curves(
            curves.precision_at_recall, with_ap, ("recall", "precision"), f"all classes {result.map50:.3f} mAP@0.5"
        ),
        FILES.confusion: _draw_matrix(confusion.shares(), names),
    }
    for name, label, values in (
        (FILES.f1_curve, "F1", curves.f1),
        (FILES.precision_curve, "precision", curves.precision),
        (FILES.recall_curve, "recall", curves.recall),
    ):
        pictures[name] = _draw_curves(values, present, ("confidence", label), _peak(values))
    folder = Path(folder)
    return {name: write_output(folder / name, content) for name, content in pictures.items()}


def _peak(values: npt.NDArray[np.float64]) -> str:
    if not len(values):
        return "all classes"
    mean = values.mean(axis=0)
    return f"all classes {mean.max():.2f} at {GRID[mean.argmax()]:.3f}"


def _draw_curves(values: npt.NDArray[np.float64], names: list[str], axes: tuple[str, str], title: str) -> bytes:
    figure, canvas, plot = blank((9, 6))
    named = 0 < len(values) <= _MOST_NAMED_CURVES
    for row, name in zip(values, names, strict=True):
        style: dict[str, Any] = {"label": plain(name)} if named else {"color": "grey", "alpha": 0.5}
        plot.plot(GRID, row, linewidth=1, **style)
    if len(values):
        plot.plot(GRID, values.mean(axis=0), linewidth=3, color="tab:blue", label=title)
        figure.legend(loc="outside right upper", fontsize=8)
    plot.set(xlim=(0, 1), ylim=(0, 1), xlabel=axes[0], ylabel=axes[1])
    return encoded(canvas)


def _draw_matrix(shares: npt.NDArray[np.float64], names: Sequence[str]) -> bytes:
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
    return encoded(canvas)
