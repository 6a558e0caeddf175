"""A diagnosis as a picture: the loss with its smooth course and phases, losses by epoch, causes, and the score."""

from typing import Any

import cv2
import numpy as np

from yolofast.report.diagnose.diagnosis import Diagnosis, not_recorded
from yolofast.report.diagnose.fluctuation import smooth_course
from yolofast.report.diagnose.statistics import in_digits
from yolofast.report.logs.history import Floats, Ints

_FAR = 8.0
"""Times what is usual."""


def clip_far_above(axes: Any, train: Floats, val: Floats | None = None) -> None:
    """Says in the panel how many losses it does not show. Validation has a level of its own."""
    curves = [values[np.isfinite(values)] for values in (train, val) if values is not None]
    usual = max((float(np.percentile(c, q)) for c, q in zip(curves, (75, 0), strict=False) if len(c)), default=0.0)
    values = np.concatenate(curves)
    far = values > _FAR * usual
    if usual <= 0 or not far.any():
        return
    shown = values[~far]
    margin = 0.05 * float(np.ptp(shown)) or 0.05 * usual
    axes.set_ylim(float(shown.min()) - margin, float(shown.max()) + margin)
    words = f"{far.sum():,} above, up to {in_digits(values.max())}, {'is' if far.sum() == 1 else 'are'} not shown"
    axes.text(0.5, 0.98, words, fontsize=8, ha="center", va="top", transform=axes.transAxes)


_CAUSES = {
    "mix": "mosaic, mixup",
    "image_size": "image size",
    "boxes": "boxes",
    "period": "period",
    "learning_rate": "learning rate",
    "wandering": "other wandering",
    "rest": "rest",
}
_MOST_POINTS = 20_000


def diagnosis_picture(found: Diagnosis) -> bytes:
    """PNG."""
    # Imported here, because it takes longer than a diagnosis. Without pyplot nothing needs a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 8), dpi=120, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    losses, epochs, causes, score = figure.subplots(2, 2).ravel()
    _draw_losses(losses, found)
    _draw_epochs(epochs, found)
    _draw_causes(causes, found)
    _draw_score(score, found)
    kinds = ", ".join(verdict.kind for verdict in found.verdicts) or found.nothing
    figure.suptitle(f"{found.history.source}: {kinds}".replace("$", r"\$"), fontsize=11)
    canvas.draw()
    pixels = cv2.cvtColor(np.asarray(canvas.buffer_rgba()), cv2.COLOR_RGBA2BGR)
    return cv2.imencode(".png", pixels)[1].tobytes()


def _draw_losses(axes: Any, found: Diagnosis) -> None:
    loss, _, epoch, unit = found.history.finest
    finite = np.isfinite(loss)
    place = _places(epoch)[finite]
    every = max(len(place) // _MOST_POINTS, 1)
    axes.plot(place[::every], loss[finite][::every], ".", markersize=2, color="tab:blue", alpha=0.35)
    for report in found.phases:
        inside = (epoch[finite] >= report.phase.first) & (epoch[finite] <= report.phase.last)
        if inside.sum() > 5:
            axes.plot(place[inside], smooth_course(loss[finite][inside]), color="tab:red", linewidth=2)
        if report.phase.starts_with != "start":
            begin, words, top = report.phase.first - 1, f" {report.phase.starts_with}", axes.get_xaxis_transform()
            axes.axvline(begin, color="grey", linestyle=":")
            axes.text(begin, 1, words, rotation=90, fontsize=7, va="top", transform=top)
    clip_far_above(axes, loss)
    axes.set(title=f"training loss of every {unit}, and its smooth course", xlabel=f"{found.history.epochs.unit}s done")


def _places(epoch: Ints) -> Floats:
    """Of each value, in epochs from 0."""
    first, counts = np.unique(epoch, return_index=True, return_counts=True)[1:]
    within = (np.arange(len(epoch)) - np.repeat(first, counts)) / np.repeat(counts, counts)
    return np.asarray(epoch - 1 + within)


def _draw_epochs(axes: Any, found: Diagnosis) -> None:
    epochs = found.history.epochs
    axes.plot(epochs.number, epochs.train, label="training", color="tab:blue")
    if np.isfinite(epochs.val).any():
        axes.plot(epochs.number, epochs.val, label="validation", color="tab:orange")
    axes.legend()
    clip_far_above(axes, epochs.train, epochs.val)
    note = "" if found.history.same_loss else " (computed differently: compare trends, not levels)"
    axes.set(title=f"loss by {epochs.unit}{note}", xlabel=f"{epochs.unit}s")


def _draw_causes(axes: Any, found: Diagnosis) -> None:
    axes.set(title="where the fluctuation around the course comes from", xlim=(0, 1))
    if found.around is None:
        axes.text(0.5, 0.5, "too few values to say", ha="center", transform=axes.transAxes)
        return
    shares = {label: getattr(found.around.shares, name) for name, label in _CAUSES.items()}
    axes.barh(list(shares), list(shares.values()), color="tab:green")
    axes.invert_yaxis()
    unknown = not_recorded(found.history)
    for row, (name, value) in enumerate(zip(_CAUSES, shares.values(), strict=True)):
        words = "not recorded" if name in unknown else f"{value:.0%}"
        axes.text(min(value + 0.01, 0.93), row, words, va="center")
    axes.set_xlabel(f"share of the variance; the standard deviation is {found.around.std:.1%} of the loss")


def _draw_score(axes: Any, found: Diagnosis) -> None:
    epochs, choice = found.history.epochs, found.choice
    known = np.isfinite(epochs.fitness)
    if known.any():
        axes.plot(epochs.number[known], epochs.fitness[known], color="tab:purple")
        axes.set_ylim(bottom=0)
    else:
        axes.plot(epochs.number, epochs.lr, color="grey")
    if choice is not None:
        axes.axvline(choice.epoch, color="black", linestyle="--")
    ship = "" if choice is None else f"; ship {epochs.unit} {choice.epoch}"
    axes.set(title=f"{epochs.score if known.any() else 'learning rate'}{ship}", xlabel=f"{epochs.unit}s")
