"""Whether the figures of one run can all be true: iterations, batch, images, pace, hours, epochs, losses, scores."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from yolofast.files.known_numbers import known_number
from yolofast.report.compare.compared_run import MAP, MAP50, OURS, ComparedRun
from yolofast.runs import layout
from yolofast.runs.layout import FILES
from yolofast.runs.reader import of_another_epoch

CONTRADICTION, LOST, NOT_COMPARABLE = "contradiction", "lost", "not comparable"
INCOMPLETE, NOTE = "incomplete", "note"
_WORST_FIRST = (CONTRADICTION, LOST, NOT_COMPARABLE, INCOMPLETE, NOTE)


@dataclass(frozen=True)
class Remark:
    kind: str
    text: str


def worst_first(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    return tuple(sorted(remarks, key=lambda remark: _WORST_FIRST.index(remark.kind)))


KNOWN_IMAGES = {"coco": 118_287, "coco320": 118_287, "coco128": 128, "coco8": 4, "voc": 16_551}
"""Training images of public data sets, by the names of their files."""
_SLACK, _TIME_SLACK = 0.05, 0.35
"""Hours hold evaluations too, so a pace may fall short of them by a third; it can exceed them by nothing."""


def check_run(run: ComparedRun, images: int | None = None) -> list[Remark]:
    """`images`: of an epoch, if the user says it."""
    known = images_of(run, images)
    impossible = (_iterations(run, known), _pace(run, known), _scores(run), _classes(run), _losses(run), _summary(run))
    incomplete = (_classes_of_another_epoch(run), _unfinished(run), _damaged(run), *run.problems)
    found = ((CONTRADICTION, impossible), (LOST, _lost(run)), (INCOMPLETE, incomplete), (NOTE, _weights(run)))
    return [Remark(kind, f"{run.name}: {text}") for kind, texts in found for text in texts if text]


def images_of(run: ComparedRun, given: int | None) -> tuple[int, str] | None:
    """Images of an epoch and where that is known from."""
    if given is not None:
        return given, f"the data set has {given:,} images (--images)"
    if run.timing.images:
        return run.timing.images, f"the run counted {run.timing.images:,} images an epoch"
    stem = Path(str(run.settings.get("data", ""))).stem.lower()
    if stem in KNOWN_IMAGES:
        return KNOWN_IMAGES[stem], f"{stem} has {KNOWN_IMAGES[stem]:,} training images"
    return None


def _iterations(run: ComparedRun, images: tuple[int, str] | None) -> str:
    """Iterations of an epoch times the batch are the data set."""
    batch, iterations = run.batch, run.timing.iterations
    if not batch or images is None or not iterations or math.ceil(images[0] / batch) == iterations:
        return ""
    count = iterations * batch
    if abs(count / images[0] - 1) <= _SLACK or 0 <= count - images[0] < batch:
        return ""
    return (
        f"{iterations:,} iterations of batch {batch:g} are {count:,.0f} images, but {images[1]}. "
        f"A batch of about {math.ceil(images[0] / iterations):,} would fit."
    )


def _pace(run: ComparedRun, images: tuple[int, str] | None) -> str:
    """Iterations a second times the time are the iterations of all epochs."""
    pace, batch, epochs = run.timing.iterations_per_second, run.batch, len(run.epoch)
    if not pace or not batch or images is None or not run.timing.total or run.format == OURS:
        return ""
    done, needed = pace * run.timing.total, epochs * math.ceil(images[0] / batch)
    if needed <= done * (1 + _SLACK) and needed >= done * (1 - _TIME_SLACK):
        return ""
    return (
        f"batch {batch:g} contradicts the timings. {pace:.3g} it/s for {run.hours:.2f} h are "
        f"{done:,.0f} iterations, {done / epochs:,.0f} an epoch. {epochs} epochs of batch {batch:g} need {needed:,} "
        f"({images[1]}), which would take {needed / pace / 3600:.1f} h. "
        f"A batch of {images[0] * epochs / done:.0f} or somewhat more would fit: evaluations take time too."
    )


def _lost(run: ComparedRun) -> list[str]:
    return [f"its best epoch is of a network that had diverged, {run.lost}. Nothing advises it."] if run.lost else []


def _scores(run: ComparedRun) -> str:
    is_above = (run.column(MAP) > run.column(MAP50) + 1e-9).any()
    return "mAP50-95 is above mAP50, which cannot be: are the columns exchanged?" if is_above else ""


def _classes_of_another_epoch(run: ComparedRun) -> str:
    if not run.classes:
        return ""
    words = of_another_epoch(run.classes_epoch, run.epoch, run.fitness, nosave=bool(run.settings.get("nosave")))
    return f"its scores per class are {words}." if words else ""


def _classes(run: ComparedRun) -> str:
    """The mean over the classes is mAP."""
    if not run.classes or _classes_of_another_epoch(run):
        return ""
    mean, whole = float(np.mean([score.ap50 for score in run.classes.values()])), run.at_best(MAP50)
    if not math.isfinite(whole) or abs(mean - whole) <= max(0.02 * whole, 2e-3):
        return ""
    return f"the mean of its classes is {mean:.4f}, its mAP50 {whole:.4f}: they are of different evaluations."


def _losses(run: ComparedRun) -> str:
    """The total is the sum of its terms, whatever a task adds to them (masks, key points)."""
    terms = [values for name, values in run.columns.items() if name.startswith("train/") and name != "train/total"]
    if len(terms) < 3:
        return ""
    off = np.abs(np.sum(terms, axis=0) / run.column("train/total") - 1)
    return "the total training loss is not the sum of its terms." if (off[np.isfinite(off)] > 0.02).any() else ""


def _summary(run: ComparedRun) -> str:
    best, reached = run.summary.get("best"), run.at_best(MAP)
    said = known_number(best.get(layout.MAP.name)) if isinstance(best, dict) else None
    if said is None or run.best is None or abs(said - reached) <= 1e-3:
        return ""
    words = f"{FILES.summary} says mAP50-95 {said:.4f}, the best row of its results {reached:.4f}"
    return f"{words}: they are of different runs."


def _unfinished(run: ComparedRun) -> str:
    planned, done = run.number("epochs"), int(run.epoch[-1])
    if planned is None or done >= planned:
        return ""
    return f"has {done} of {planned:.0f} planned epochs; its schedule was not over."


def _damaged(run: ComparedRun) -> str:
    if not np.isfinite(run.fitness).any():
        return "was never evaluated, so its accuracy is unknown."
    missing = int((~np.isfinite(run.column("train/total"))).sum())
    return f"the training loss of {missing} epochs is NaN or infinite; they are omitted." if missing else ""


def _weights(run: ComparedRun) -> list[str]:
    found = []
    for file in run.weights:
        if file.problem:
            found.append(f"{file.name} cannot be read: {file.problem}")
        elif file.name == FILES.best and not file.stripped:
            text = f"{FILES.best} was never stripped: {file.bytes / 1e6:.1f} MB, of which {file.contents}"
            found.append(f"{text}. `yolofast strip --weights` keeps the weights alone.")
    return found
