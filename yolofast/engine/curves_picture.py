"""`results.png`: how losses and metrics went, epoch by epoch."""

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from yolofast.engine.record import terms_of

_METRICS = {
    "train": ("metrics/precision(B)", "metrics/recall(B)"),
    "val": ("metrics/mAP50(B)", "metrics/mAP50-95(B)"),
}
"""Behind the losses of training, and below them behind those of validation."""


def curves_picture(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The picture, from the rows of `results.csv`; what was not measured in an epoch is left out of the curve."""
    # Imported here, because a run without pictures has no use for it. Without pyplot nothing needs a display, and no
    # figure has to be closed.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    terms = terms_of(rows)
    panels = [name for side in _METRICS for name in (*(f"{side}/{term}_loss" for term in terms), *_METRICS[side])]
    across = len(panels) // 2
    figure = Figure(figsize=(3 * across, 6), dpi=120, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    for panel, name in zip(figure.subplots(2, across).ravel(), panels, strict=True):
        measured = [(row["epoch"] + 1, row[name]) for row in rows if isinstance(row.get(name), int | float)]
        epochs, values = zip(*measured, strict=True) if measured else ((), ())
        panel.plot(epochs, values, marker="." if len(values) < 100 else None, linewidth=2, color="tab:blue")
        panel.set_title(name.replace("(B)", ""), fontsize=11)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(alpha=0.3)
        if name.startswith("metrics/"):
            panel.set_ylim(0, max(1.05 * max(values, default=0.0), 0.01))
    figure.supxlabel("epoch", fontsize=10)
    canvas.draw()
    pixels = cv2.cvtColor(np.asarray(canvas.buffer_rgba()), cv2.COLOR_RGBA2BGR)
    return cv2.imencode(".png", pixels)[1].tobytes()
