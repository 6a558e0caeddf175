"""A figure to draw into, and its picture."""

from typing import Any

import cv2
import numpy as np


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
