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

CONTRADICTION, NOT_COMPARABLE, INCOMPLETE, NOTE = "contradiction", "not comparable", "incomplete", "note"
_WORST_FIRST = (CONTRADICTION, NOT_COMPARABLE, INCOMPLETE, NOTE)


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
    found = [_iterations(run, images), _pace(run, images), _scores(run), _classes(run), _losses(run), _summary(run)]
    found += [_unfinished(run), _damaged(run), *_weights(run)]
    found += [Remark(INCOMPLETE, f"{run.name}: {problem}") for problem in run.problems]
    return [remark for remark in found if remark is not None]


def images_of(run: ComparedRun, told: int | None) -> tuple[int, str] | None:
    """Images of an epoch and where that is known from."""
    if told is not None:
        return told, f"the data set has {told:,} images (--images)"
    if run.timing.images:
        return run.timing.images, f"the run counted {run.timing.images:,} images an epoch"
    stem = Path(str(run.settings.get("data", ""))).stem.lower()
    if stem in KNOWN_IMAGES:
        return KNOWN_IMAGES[stem], f"{stem} has {KNOWN_IMAGES[stem]:,} training images"
    return None


def _iterations(run: ComparedRun, told: int | None) -> Remark | None:
    """Iterations of an epoch times the batch are the data set."""
    batch, known, iterations = run.batch, images_of(run, told), run.timing.iterations
    if not batch or known is None or not iterations or math.ceil(known[0] / batch) == iterations:
        return None
    seen = iterations * batch
    if abs(seen / known[0] - 1) <= _SLACK or 0 <= seen - known[0] < batch:
        return None
    fits = math.ceil(known[0] / iterations)
    return Remark(
        CONTRADICTION,
        f"{run.name}: {iterations:,} iterations of batch {batch:g} are {seen:,.0f} images, but {known[1]}. "
        f"A batch of about {fits:,} would fit.",
    )


def _pace(run: ComparedRun, told: int | None) -> Remark | None:
    """Iterations a second times the time are the iterations of all epochs."""
    pace, batch, known = run.timing.iterations_per_second, run.batch, images_of(run, told)
    if not pace or not batch or known is None or not run.timing.total or run.format == OURS:
        return None
    epochs = len(run.epoch)
    done, needed = pace * run.timing.total, epochs * math.ceil(known[0] / batch)
    if needed <= done * (1 + _SLACK) and needed >= done * (1 - _TIME_SLACK):
        return None
    head = (
        f"{run.name}: batch {batch:g} contradicts the timings. {pace:.3g} it/s for {run.hours:.2f} h are "
        f"{done:,.0f} iterations, {done / epochs:,.0f} an epoch; {epochs} epochs of batch {batch:g} need {needed:,} "
        f"({known[1]}), which would take {needed / pace / 3600:.1f} h."
    )
    least = known[0] * epochs / done
    return Remark(
        CONTRADICTION, f"{head} A batch of {least:.0f} or somewhat more would fit: evaluations take time too."
    )


def _scores(run: ComparedRun) -> Remark | None:
    both = np.isfinite(run.column(MAP)) & np.isfinite(run.column(MAP50))
    if not (run.column(MAP)[both] > run.column(MAP50)[both] + 1e-9).any():
        return None
    return Remark(CONTRADICTION, f"{run.name}: mAP50-95 is above mAP50, which cannot be: are the columns exchanged?")


def _classes(run: ComparedRun) -> Remark | None:
    """The mean over the classes is mAP."""
    if not run.classes or run.best is None:
        return None
    nosave = bool(run.settings.get("nosave"))
    if words := of_another_epoch(run.classes_epoch, run.epoch, run.fitness, nosave=nosave):
        return Remark(INCOMPLETE, f"{run.name}: its scores per class are {words}.")
    mean, whole = float(np.mean([score.ap50 for score in run.classes.values()])), run.at_best(MAP50)
    if not math.isfinite(whole) or abs(mean - whole) <= max(0.02 * whole, 2e-3):
        return None
    text = f"the mean of its classes is {mean:.4f}, its mAP50 {whole:.4f}: they are of different evaluations"
    return Remark(CONTRADICTION, f"{run.name}: {text}.")


def _losses(run: ComparedRun) -> Remark | None:
    """The total is the sum of its terms, whatever a task adds to them (masks, key points)."""
    terms = [values for name, values in run.columns.items() if name.startswith("train/") and name != "train/total"]
    if len(terms) < 3:
        return None
    off = np.abs(np.sum(terms, axis=0) / run.column("train/total") - 1)
    if not (off[np.isfinite(off)] > 0.02).any():
        return None
    return Remark(CONTRADICTION, f"{run.name}: the total training loss is not the sum of its terms.")


def _summary(run: ComparedRun) -> Remark | None:
    best = run.summary.get("best")
    said = known_number(best.get(layout.MAP.name)) if isinstance(best, dict) else None
    if said is None or run.best is None or abs(said - run.at_best(MAP)) <= 1e-3:
        return None
    text = f"{FILES.summary} says mAP50-95 {said:.4f}, the best row of its results {run.at_best(MAP):.4f}"
    return Remark(CONTRADICTION, f"{run.name}: {text}: they are of different runs.")


def _unfinished(run: ComparedRun) -> Remark | None:
    planned, done = run.number("epochs"), int(run.epoch[-1])
    if planned is None or done >= planned:
        return None
    return Remark(INCOMPLETE, f"{run.name}: has {done} of {planned:.0f} planned epochs; its schedule was not over.")


def _damaged(run: ComparedRun) -> Remark | None:
    losses, scores = run.column("train/total"), run.fitness
    if np.isfinite(losses).all() and np.isfinite(scores).any():
        return None
    if not np.isfinite(scores).any():
        return Remark(INCOMPLETE, f"{run.name}: was never evaluated, so its accuracy is unknown.")
    missing = int((~np.isfinite(losses)).sum())
    return Remark(INCOMPLETE, f"{run.name}: the training loss of {missing} epochs is not a number; they are left out.")


def _weights(run: ComparedRun) -> list[Remark]:
    found = []
    for file in run.weights:
        if file.problem:
            found.append(Remark(NOTE, f"{run.name}: {file.name} cannot be read: {file.problem}"))
        elif file.name == FILES.best and not file.stripped:
            what = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in file.entries.items())
            text = f"{FILES.best} was never stripped: {file.bytes / 1e6:.1f} MB, of which {what}"
            found.append(Remark(NOTE, f"{run.name}: {text}. `yolofast strip --weights` keeps the weights alone."))
    return found
