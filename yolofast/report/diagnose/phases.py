"""Stretches of a run in which nothing was changed: a loss that moves between them says nothing about the training."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from yolofast.report.logs.history import Batches, Bools, Epochs, Floats, History, Ints

_STEP_RATIO, _STEP_OVER_USUAL = 0.7, 4.0
_LATEST_PEAK = 0.5
_WARM = 0.99
"""Of the highest rate: a batch below it is still warming up."""
_DIP = 0.02
"""Of the highest rate: YOLOv7's goes up with the warm-up and, at the end of an epoch, a little down with the cosine."""
_CLOSED = "mosaic closed"


@dataclass(frozen=True)
class Phase:
    first: int
    """Epochs from 1; the last one is part of it."""
    last: int
    starts_with: str
    """What changed."""
    warms_up: bool = False
    rate_fell: bool = False
    """Nothing else changed: a loss may fall with it, but not rise, so it can be compared with what was before."""

    def __contains__(self, epoch: int) -> bool:
        return self.first <= epoch <= self.last


def find_phases(history: History) -> list[Phase]:
    epochs = history.epochs
    changes: dict[int, list[str]] = {}
    warm_up = _end_of_warm_up(history)
    if warm_up:
        changes[warm_up + 1] = ["warm-up over"]
    steps = _steps_of_lr(epochs, warm_up)
    others = _of_batches(history.batches) if history.batches else []
    for epoch, what in [(epoch, what) for epoch, what, _ in steps] + others:
        changes.setdefault(epoch, []).append(what)
    falls = {epoch for epoch, _, fell in steps if fell} - {epoch for epoch, _ in others}
    last = int(epochs.number[-1])
    starts = [int(epochs.number[0]), *sorted(epoch for epoch in changes if epochs.number[0] < epoch <= last)]
    ends = [start - 1 for start in starts[1:]] + [last]
    return [
        Phase(start, end, ", ".join(changes.get(start, ["start"])), warms_up=end <= warm_up, rate_fell=start in falls)
        for start, end in zip(starts, ends, strict=True)
    ]


def stretches(phases: list[Phase], epochs: Ints) -> Ints:
    """A number for each epoch, the same for those whose losses can be compared: no more than the rate fell between."""
    numbers = np.cumsum([not phase.rate_fell for phase in phases])
    return np.array([numbers[next(i for i, p in enumerate(phases) if int(n) in p)] for n in epochs], np.int64)


def _end_of_warm_up(history: History) -> int:
    """The last epoch in which the learning rate was still rising from the start; 0 without a warm-up."""
    epochs, batches = history.epochs, history.batches
    if batches is not None and np.isfinite(batches.lr).all():
        rising = _rising(batches.lr)
        below = np.flatnonzero(batches.lr[:rising] < _WARM * batches.lr.max())
        return int(batches.epoch[below[-1]]) if len(epochs) >= 3 and len(below) else 0
    rising = _rising(epochs.lr)  # rates at the ends of epochs: the last one is that of the peak
    return int(epochs.number[rising]) if len(epochs) >= 3 and rising else 0


def _rising(lr: Floats) -> int:
    """How many values come before the highest one, if they only rise; otherwise 0.

    They are less than half of all, or the rate has not come down yet: a cycle is no warm-up.
    """
    if not len(lr) or not np.isfinite(lr).all() or lr.max() <= 0:
        return 0
    peak = int(lr.argmax())
    dips = np.maximum.accumulate(lr[: peak + 1]) - lr[: peak + 1]
    rises = lr[0] < 0.9 * lr[peak] and dips.max() <= _DIP * lr[peak]
    is_early, stays_up = peak < _LATEST_PEAK * len(lr), lr[-1] >= (1 - _DIP) * lr[peak]
    return peak if rises and (is_early or stays_up) else 0


def _steps_of_lr(epochs: Epochs, warm_up: int) -> list[tuple[int, str, bool]]:
    """Jumps, and whether down; a rate that falls smoothly is one phase however far it falls."""
    chosen = (epochs.number > warm_up) & np.isfinite(epochs.lr) & (epochs.lr > 0)
    lr, number = epochs.lr[chosen], epochs.number[chosen]
    if len(lr) < 3:
        return []
    change, usual = np.abs(np.diff(lr)), float(np.median(np.abs(np.diff(lr))))
    ratio = np.minimum(lr[1:] / lr[:-1], lr[:-1] / lr[1:])
    places = np.flatnonzero((ratio < _STEP_RATIO) & (change > _STEP_OVER_USUAL * usual))
    return [
        (int(number[i + 1]), f"learning rate {lr[i]:.3g} -> {lr[i + 1]:.3g}", bool(lr[i + 1] < lr[i]))
        for i in places.tolist()
    ]


def _of_batches(batches: Batches) -> list[tuple[int, str]]:
    found = []
    if "mosaic" in batches.contents:
        found += _switches(batches, batches.contents["mosaic"] > 0, "mosaic on", _CLOSED)
    elif batches.mosaic_closed is not None:
        found.append((batches.mosaic_closed, _CLOSED))
    if batches.l1 is not None:
        found += _switches(batches, batches.l1 > 0, "L1 on", "L1 off")
    if batches.trainable is not None:
        numbers, values = batches.by_epoch(batches.trainable)
        for place in np.flatnonzero(np.diff(values)).tolist():
            share = f"{values[place] / 1e6:.2f} -> {values[place + 1] / 1e6:.2f} M parameters learn"
            found.append((int(numbers[place + 1]), share))
    if len(batches.assigner) == len(batches):
        numbers, first = np.unique(batches.epoch, return_index=True)
        names = pairwise(batches.assigner[i] for i in first)
        pairs = zip(numbers[1:].tolist(), names, strict=True)
        found += [(epoch, f"assigner {one} -> {other}") for epoch, (one, other) in pairs if one != other]
    return found


def _switches(batches: Batches, is_on: Bools, on: str, off: str) -> list[tuple[int, str]]:
    """Epochs in which something is there at all, or not: single batches without a mosaic are chance."""
    numbers, share = batches.by_epoch(is_on.astype(np.float64))
    turns = np.diff((share > 0).astype(int))
    return [(int(numbers[i + 1]), on if turns[i] > 0 else off) for i in np.flatnonzero(turns).tolist()]
