"""Tracking beside mAP: where the two choose different epochs of a run, and what each choice costs."""

from collections.abc import Iterator, Mapping

from yolofast.pages.elements import Callout, Cell, Element, LineChart, Marked, Paragraph, Series, Table
from yolofast.runs.layout import FILES, MAP
from yolofast.runs.tracking import COUNTS, SCORES, Agreement, tracked_differently


def tracking_elements(found: Mapping[str, Agreement]) -> Iterator[Element]:
    """By the names of the runs."""
    if not found:
        return
    rows = tuple(_best_row(name, one) for name, one in found.items())
    titles = tuple(f"{score} of mAP's epoch" for score in SCORES)
    columns = ("run", f"best by {MAP.title}", *(f"best by {score}" for score in SCORES), *titles)
    yield Table(columns, rows, f"Epochs that `tracksweep --weights` has tracked ({FILES.tracking}); shares in percent")
    if warning := tracked_differently(found):
        yield Callout("warn", f"{warning.capitalize()}.")
    for name, one in found.items():
        yield from agreement_elements(one, name)


def agreement_elements(found: Agreement, name: str = "") -> Iterator[Element]:
    """Of one run."""
    before = f"{name}: " if name else ""
    first, *others = found.words()
    yield Paragraph(f"{before}{first}.")
    for text in others:
        yield Callout("warn" if found.disagreements else "good" if found.agrees else "note", f"{before}{text}.")
    epochs = found.tracked.epochs
    x = tuple(float(one.epoch) for one in epochs)
    lines = [Series(score, x, tuple(100 * one.scores[score] for one in epochs), score) for score in SCORES]
    lines.append(Series(MAP.title, x, tuple(100 * value for value in found.maps), MAP.title, dashed=True))
    yield LineChart(f"{before}tracking and {MAP.title} over epochs", "epoch", "percent", tuple(lines))
    yield _table(found)


def _table(found: Agreement) -> Table:
    differing = [score for score in SCORES if len({one.scores[score] for one in found.tracked.epochs}) > 1]
    best = {score: found.tracked.best(score).epoch for score in differing}
    rows = []
    for one, value in zip(found.tracked.epochs, found.maps, strict=True):
        scores: list[Cell] = []
        for score in SCORES:
            shown = round(100 * one.scores[score], 3)
            scores.append(Marked(shown, "best", f"best {score}") if best.get(score) == one.epoch else shown)
        counts = (one.scores.get(name) for name in COUNTS)
        rows.append((one.epoch, one.weights, 100 * value, *scores, *counts))
    return Table(("epoch", "weights", MAP.title, *SCORES, *COUNTS), tuple(rows), sortable=True)


def _best_row(name: str, one: Agreement) -> tuple[Cell, ...]:
    best = [one.tracked.best(score) for score in SCORES]
    chosen = one.by_map
    own = (None if chosen is None else chosen.scores[score] for score in SCORES)
    return (
        name,
        None if chosen is None else f"epoch {chosen.epoch}",
        *(f"epoch {epoch.epoch}: {100 * epoch.scores[score]:.2f}" for epoch, score in zip(best, SCORES, strict=True)),
        *(None if value is None else f"{100 * value:.2f}" for value in own),
    )
