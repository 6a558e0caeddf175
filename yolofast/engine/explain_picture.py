"""The schedule of a run as a picture: learning rates, what learns, augmentation, and the size of an update."""

from typing import Any

import cv2
import numpy as np

from yolofast.engine.explanation import CHANCES, Explanation


def explain_picture(run: Explanation) -> bytes:
    """A PNG file."""
    # Imported here, because it takes longer than everything else. Without pyplot nothing needs a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 8), dpi=110, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    rates, learning, chances, update = figure.subplots(2, 2, sharex=True).ravel()
    _draw_rates(rates, run)
    _draw_learning(learning, run)
    _draw_chances(chances, run)
    _draw_update(update, run)
    for panel in (rates, learning, chances, update):
        panel.grid(alpha=0.3)
        for phase in run.plan.phases[1:]:
            panel.axvline(phase.first, color="grey", linestyle=":", linewidth=1)
    figure.supxlabel("epochs done", fontsize=10)
    canvas.draw()
    pixels = cv2.cvtColor(np.asarray(canvas.buffer_rgba()), cv2.COLOR_RGBA2BGR)
    return cv2.imencode(".png", pixels)[1].tobytes()


def _draw_rates(panel: Any, run: Explanation) -> None:
    """From the first to the last batch of every epoch, and a gap where a scope is frozen."""
    places = _ends_of_epochs(run)
    for number, scope in enumerate(run.scopes):
        values: list[float] = []
        for row in run.rows:
            rate = row.lr.get(scope.name)
            values += [rate.first, rate.last] if rate is not None else [np.nan, np.nan]
        width = 1.5 + 2 * (len(run.scopes) - 1 - number)  # where they are equal, all are to be seen
        panel.plot(places, values, linewidth=width, label=scope.name)
    biases = [value for row in run.rows for value in (row.bias_lr.first, row.bias_lr.last)]
    panel.plot(places, biases, linewidth=1, linestyle="--", color="grey", label="biases")
    highest = max(rate.last for row in run.rows for rate in row.lr.values())
    panel.set_ylim(0, 1.15 * highest or 1)  # biases may start far above
    panel.set_title("learning rate", fontsize=11)
    panel.legend(fontsize=8)


def _draw_learning(panel: Any, run: Explanation) -> None:
    edges = [run.plan.phases[0].first, *(phase.end for phase in run.plan.phases)]
    counts = [phase.trainable(run.model) / 1e6 for phase in run.plan.phases]
    panel.stairs(counts, edges, fill=True, alpha=0.4)
    for phase, count in zip(run.plan.phases, counts, strict=True):
        panel.annotate(phase.what, (phase.first, count), fontsize=8, xytext=(3, 3), textcoords="offset points")
    panel.set_ylim(0, 1.15 * run.parameters / 1e6)
    panel.axhline(run.parameters / 1e6, color="grey", linewidth=1)
    panel.set_title("million parameters that learn", fontsize=11)


def _draw_chances(panel: Any, run: Explanation) -> None:
    edges = [*(row.epoch for row in run.rows), run.rows[-1].epoch + 1]
    for name in CHANCES:
        values = [row.chances[name] for row in run.rows]
        if any(values):
            panel.stairs(values, edges, baseline=None, linewidth=2, label=name)
    panel.set_ylim(0, 1.05)
    panel.set_title("share of images", fontsize=11)
    panel.legend(fontsize=8)


def _draw_update(panel: Any, run: Explanation) -> None:
    places = _ends_of_epochs(run)
    values = [run.batch * n for row in run.rows for n in (row.accumulate.first, row.accumulate.last)]
    panel.plot(places, values, linewidth=2)
    panel.set_ylim(0, 1.15 * max(values))
    panel.set_title("images per update", fontsize=11)


def _ends_of_epochs(run: Explanation) -> list[float]:
    """Where the first and the last batch of every epoch stand."""
    return [place for row in run.rows for place in (row.epoch, row.epoch + (run.batches - 1) / run.batches)]
