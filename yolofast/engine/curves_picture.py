"""`results.png`: how losses and metrics went, epoch by epoch."""

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from yolofast.runs.layout import EPOCH, TRAIN_LOSS, VAL_LOSS, columns_from, terms_in


def panels_of(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The columns to draw above and below: losses of training above those of validation, then the metrics."""
    terms = terms_in(dict.fromkeys(name for row in rows for name in row))
    drawn = [column.name for column in columns_from("metric") if column.drawn]
    half = (len(drawn) + 1) // 2
    above, below = ([pattern.of_term(term) for term in terms] for pattern in (TRAIN_LOSS, VAL_LOSS))
    return above + drawn[:half], below + drawn[half:]


def curves_picture(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The picture, from the rows of `results.csv`; what was not measured in an epoch is left out of the curve."""
    # Imported here, because a run without pictures has no use for it. Without pyplot nothing needs a display, and no
    # figure has to be closed.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    above, below = panels_of(rows)
    across, scores = len(above), {column.name for column in columns_from("metric")}
    figure = Figure(figsize=(3 * across, 6), dpi=120, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    panels = figure.subplots(2, across).ravel()
    for empty in panels[across + len(below) :]:  # of an odd number of metrics
        empty.set_axis_off()
    for panel, name in zip(panels, above + below, strict=False):
        measured = [(row[EPOCH.name] + 1, row[name]) for row in rows if isinstance(row.get(name), int | float)]
        epochs, values = zip(*measured, strict=True) if measured else ((), ())
        panel.plot(epochs, values, marker="." if len(values) < 100 else None, linewidth=2, color="tab:blue")
        panel.set_title(name.replace("(B)", ""), fontsize=11)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(alpha=0.3)
        if name in scores:
            panel.set_ylim(0, max(1.05 * max(values, default=0.0), 0.01))
    figure.supxlabel("epoch", fontsize=10)
    canvas.draw()
    pixels = cv2.cvtColor(np.asarray(canvas.buffer_rgba()), cv2.COLOR_RGBA2BGR)
    return cv2.imencode(".png", pixels)[1].tobytes()
