"""The schedule of a run as a picture: learning rates, what learns, augmentation, and the size of an update."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from yolofast.evaluate.drawing import encoded
from yolofast.optim.optimizer import BIASES
from yolofast.optim.schedule import StepSettings
from yolofast.train.explain.explanation import CHANCES, Explanation, rate_of
from yolofast.train.families.family import EpochFacts

_POINTS, _WIDEST = 600, 6


def explain_picture(run: Explanation) -> bytes:
    """A PNG file."""
    canvas, (rates, learning, chances, update) = _panels()
    _draw_rates(rates, run)
    _draw_learning(learning, run)
    _draw_chances(chances, run)
    _draw_update(update, run)
    for panel in (rates, learning, chances, update):
        for phase in run.phases[1:]:
            panel.axvline(phase.first, color="grey", linestyle=":", linewidth=1)
    return encoded(canvas)


def against_picture(runs: Mapping[str, Explanation]) -> bytes:
    """Two runs by name in the same panels: the first drawn through, the second dashed. A PNG file."""
    canvas, (rates, learning, chances, update) = _panels()
    drawn = [name for name in CHANCES if len({_shares(run, name) for run in runs.values()}) > 1]
    for (name, run), style in zip(runs.items(), ("-", "--"), strict=True):
        places, settings = _places(run)
        fastest = [
            max(rate_of(scope, row.phase, at) for scope in run.scopes if scope.name in row.lr) for row, at in settings
        ]
        rates.plot(places, fastest, style, linewidth=2, label=name)
        edges = [run.rows[0].epoch, *(phase.end for phase in run.phases)]
        counts = [phase.trainable(run.model) / 1e6 for phase in run.phases]
        learning.stairs(counts, edges, linestyle=style, linewidth=2, label=f"{name}: {run.parameters / 1e6:.1f} in all")
        epochs = [*(row.epoch for row in run.rows), run.rows[-1].epoch + 1]
        for number, chance in enumerate(drawn):
            values, width = [row.chances[chance] for row in run.rows], _width(number, len(drawn))
            looks = {"linestyle": style, "linewidth": width, "color": f"C{number}"}
            chances.stairs(values, epochs, baseline=None, label=chance if style == "-" else None, **looks)
        update.plot(*_updates(run), style, linewidth=2, label=name)
    rates.set_title("learning rate of what learns fastest", fontsize=11)
    learning.set_title("million parameters that learn", fontsize=11)
    chances.set_title(f"share of images, where it differs; dashed: {list(runs)[1]}", fontsize=11)
    update.set_title("images per update", fontsize=11)
    for panel in (rates, learning, chances, update):
        panel.set_ylim(bottom=0)
        if panel is not chances or drawn:
            panel.legend(fontsize=8)
    return encoded(canvas)


def _shares(run: Explanation, name: str) -> frozenset[float]:
    return frozenset(row.chances[name] for row in run.rows)


def _panels() -> tuple[Any, Any]:
    # Imported here, because it takes longer than everything else. Without pyplot nothing needs a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 8), dpi=110, layout="constrained")
    panels = figure.subplots(2, 2, sharex=True).ravel()
    for panel in panels:
        panel.grid(alpha=0.3)
    figure.supxlabel("epochs done", fontsize=10)
    return FigureCanvasAgg(figure), panels


def _draw_rates(panel: Any, run: Explanation) -> None:
    """In so many batches that a warm-up is seen as it bends, and with a gap where a scope is frozen."""
    places, drawn = _places(run)
    for number, scope in enumerate(run.scopes):
        values = [rate_of(scope, row.phase, at) if scope.name in row.lr else np.nan for row, at in drawn]
        panel.plot(places, values, linewidth=_width(number, len(run.scopes)), label=scope.name)
    biases = [at.lr[BIASES] for _, at in drawn]
    panel.plot(places, biases, linewidth=1, linestyle="--", color="grey", label="biases")
    highest = max(rate.last for row in run.rows for rate in row.lr.values())
    panel.set_ylim(0, 1.15 * highest or 1)  # biases may start far above
    panel.set_title("learning rate", fontsize=11)
    panel.legend(fontsize=8)


def _draw_learning(panel: Any, run: Explanation) -> None:
    phases = run.phases
    edges = [run.rows[0].epoch, *(phase.end for phase in phases)]
    counts = [phase.trainable(run.model) / 1e6 for phase in phases]
    panel.stairs(counts, edges, fill=True, alpha=0.4)
    for phase, count, begins in zip(phases, counts, edges, strict=False):
        panel.annotate(phase.what, (begins, count), fontsize=8, xytext=(3, 3), textcoords="offset points")
    panel.set_ylim(0, 1.15 * run.parameters / 1e6)
    panel.axhline(run.parameters / 1e6, color="grey", linewidth=1)
    panel.set_title("million parameters that learn", fontsize=11)


def _draw_chances(panel: Any, run: Explanation) -> None:
    edges = [*(row.epoch for row in run.rows), run.rows[-1].epoch + 1]
    used = [name for name in CHANCES if any(row.chances[name] for row in run.rows)]
    for number, name in enumerate(used):
        values = [row.chances[name] for row in run.rows]
        panel.stairs(values, edges, baseline=None, linewidth=_width(number, len(used)), label=name)
    turns = [row for before, row in zip(run.rows, run.rows[1:], strict=False) if row.loss != before.loss]
    for row in turns:  # named on the side where there is room
        is_late = 2 * row.epoch > run.rows[0].epoch + run.rows[-1].epoch + 1
        text, side, away = (f"{row.loss} →", "right", -3) if is_late else (f"→ {row.loss}", "left", 3)
        panel.axvline(row.epoch, color="black", linestyle="--", linewidth=1)
        panel.annotate(text, (row.epoch, 1.08), fontsize=8, ha=side, xytext=(away, 0), textcoords="offset points")
    panel.set_ylim(0, 1.15)
    panel.set_title("share of images" + ("; the loss where it changes" if turns else ""), fontsize=11)
    if used:
        panel.legend(fontsize=8)


def _draw_update(panel: Any, run: Explanation) -> None:
    places, values = _updates(run)
    panel.plot(places, values, linewidth=2)
    panel.set_ylim(0, 1.15 * max(values))
    panel.set_title("images per update", fontsize=11)


def _updates(run: Explanation) -> tuple[list[float], list[float]]:
    """Images of an update at the first and the last batch of every epoch."""
    end = (run.batches - 1) / run.batches  # where the last batch of an epoch stands
    places = [place for row in run.rows for place in (row.epoch, row.epoch + end)]
    return places, [run.batch * n for row in run.rows for n in (row.accumulate.first, row.accumulate.last)]


def _places(run: Explanation) -> tuple[list[float], list[tuple[EpochFacts, StepSettings]]]:
    """In epochs, of as many batches as a picture can show, with what is set at each."""
    batches = [(row, batch) for row in run.rows for batch in _some_batches(run)]
    places = [row.epoch + batch / run.batches for row, batch in batches]
    return places, [(row, run.settings_at(row.epoch, batch)) for row, batch in batches]


def _width(number: int, count: int) -> float:
    """The first lies lowest and is the widest: where lines are equal, all are to be seen."""
    return 1.5 + min(2, _WIDEST / count) * (count - 1 - number)


def _some_batches(run: Explanation) -> list[int]:
    """Of an epoch: the first, the last, and as many in between as a picture can show."""
    count = min(max(_POINTS // len(run.rows), 2), run.batches)
    return [round(place) for place in np.linspace(0, run.batches - 1, count).tolist()]
