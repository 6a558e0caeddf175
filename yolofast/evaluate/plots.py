"""Pictures of the curves and of the confusion matrix, under the file names YOLOv7 uses."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from yolofast.evaluate.confusion import ConfusionMatrix
from yolofast.evaluate.drawing import draw_curves, draw_matrix
from yolofast.evaluate.v7_metrics import GRID, V7Result
from yolofast.runs.layout import FILES

Floats = npt.NDArray[np.float64]


def plots_of(result: V7Result, confusion: ConfusionMatrix, names: Sequence[str]) -> dict[str, Callable[[Path], None]]:
    """What draws each of the five, by its name: `PR_curve.png`, `F1_curve.png`, `P_curve.png`, `R_curve.png` and
    `confusion_matrix.png`. Another process can do it, too.
    """
    curves, present = result.curves, [names[label] for label in result.classes]
    with_ap = [f"{name} {ap:.3f}" for name, ap in zip(present, result.ap[:, 0], strict=True)]

    def draw(values: Floats, names: Sequence[str], axes: tuple[str, str], title: str) -> Callable[[Path], None]:
        return partial(draw_curves, grid=GRID, values=values, names=names, axes=axes, title=title)

    whole = f"all classes {result.map50:.3f} mAP@0.5"
    return {
        FILES.precision_recall_curve: draw(curves.precision_at_recall, with_ap, ("recall", "precision"), whole),
        FILES.confusion: partial(draw_matrix, shares=confusion.shares(), names=names),
        **{
            name: draw(values, present, ("confidence", label), _peak(values))
            for name, label, values in (
                (FILES.f1_curve, "F1", curves.f1),
                (FILES.precision_curve, "precision", curves.precision),
                (FILES.recall_curve, "recall", curves.recall),
            )
        },
    }


def save_plots(
    folder: str | Path, result: V7Result, confusion: ConfusionMatrix, names: Sequence[str]
) -> dict[str, Path]:
    """Draws all of them into the folder; where each is."""
    pictures = {}
    for name, draw in plots_of(result, confusion, names).items():
        pictures[name] = Path(folder) / name
        draw(pictures[name])
    return pictures


def _peak(values: Floats) -> str:
    if not len(values):
        return "all classes"
    mean = values.mean(axis=0)
    return f"all classes {mean.max():.2f} at {GRID[mean.argmax()]:.3f}"
