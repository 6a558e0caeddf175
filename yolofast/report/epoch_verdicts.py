"""What the losses of the epochs show: a loss that runs away, overfits, or stands still."""

import numpy as np

from yolofast.known_numbers import HUGE
from yolofast.report.history import Epochs, Floats, History
from yolofast.report.phases import Phase, stretches
from yolofast.report.statistics import cautious_noise, fit_line, noise_between
from yolofast.report.verdict import DIVERGENCE, OVERFITTING, PLATEAU, Verdict

LEAST_EPOCHS = 6
"""Below it no rule has anything to say, except of a loss that is no number."""
_RISE, _RISE_IN_ERRORS = 0.15, 6.0
_OVERFIT_EPOCHS, _OVERFIT_RISE, _OVERFIT_CHANCE = 5, 0.02, 1e-3
_FLAT, _FLAT_EPOCHS, _FLAT_LR = 0.01, 8, 0.2
_FLAT_SHARE, _FLAT_SHARE_WITHOUT_LR = 0.3, 0.5


def divergence(history: History, phases: list[Phase]) -> Verdict | None:
    """The loss is no number, or ended well above what it had reached before under the same conditions."""
    loss, _, epoch, what = history.finest
    broken = np.flatnonzero(np.isinf(loss))
    if len(broken):
        first = int(epoch[broken[0]])
        many = "" if len(broken) == 1 else "es" if what == "batch" else "s"
        words = f"{len(broken):,} {what}{many}"
        text = f"the loss was not a number, or above {HUGE:g}, in {words}, first in {history.epochs.unit} {first}"
        return Verdict(DIVERGENCE, text, {"epoch": first, "values": len(broken)})
    stretch = stretches(phases, history.epochs.number)
    last = (stretch == stretch[-1]) & np.isfinite(history.epochs.train)
    train, number = history.epochs.train[last], history.epochs.number[last]
    if len(train) < LEAST_EPOCHS:
        return None
    width = max(2, len(train) // 10)
    means = np.convolve(train, np.ones(width) / width, "valid")
    best = int(means[:-1].argmin())
    rise, error = float(means[-1] - means[best]), cautious_noise(train, best, best + width) * np.sqrt(2 / width)
    if not means[best] > 0 or rise < _RISE * means[best] or rise < _RISE_IN_ERRORS * error:
        return None
    first = int(number[best + width - 1])
    text = (
        f"the training loss rose by {rise / means[best]:.0%} after {history.epochs.unit} {first} and did not come back"
    )
    return Verdict(DIVERGENCE, text, {"epoch": first, "rise": rise / float(means[best])})


def overfitting(history: History, phases: list[Phase]) -> Verdict | None:
    """The validation loss rises from its minimum on, beyond its noise, while the training loss goes on falling."""
    epochs = history.one_validation
    kept = np.isfinite(epochs.val) & np.isfinite(epochs.train)
    number, val, train = (getattr(epochs, name)[kept] for name in ("number", "val", "train"))
    if len(val) < 2 * _OVERFIT_EPOCHS:
        return None
    smooth = _middle_of_three(val)
    best = int(smooth.argmin())
    if len(val) - best < max(_OVERFIT_EPOCHS, len(val) // 10):
        return None
    after, level = val[best:], float(smooth[best])
    rise = float(after[-max(len(after) // 3, 2) :].mean()) - level
    up = fit_line(after)
    down = fit_line(train[best:], stretches(phases, number[best:]))
    real = rise > max(_OVERFIT_RISE * abs(level), 3 * noise_between(after))  # the steep beginning is no noise
    if not real or 1 - up.falls > _OVERFIT_CHANCE or down.falls > 0.01:
        return None
    first, fall = int(number[best]), -down.slope * (len(after) - 1) / abs(float(train[best:].mean()))
    text = (
        f"since epoch {first} the validation loss rose by {rise / level:.0%} while the training loss fell by {fall:.0%}"
    )
    good = epochs.fitness[kept]
    if np.isfinite(good).all() and good[best:].argmax() > len(after) // 2:
        text += "; mAP still rose, so it is confidence rather than detection that gets worse"
    return Verdict(OVERFITTING, text, {"epoch": first, "val_rise": rise / level, "train_fall": fall})


def plateau(history: History, phases: list[Phase]) -> Verdict | None:
    """The training loss stands still although the learning rate would let it move."""
    chosen = _can_move(history.epochs, phases)
    number, train = history.epochs.number[chosen], history.epochs.train[chosen]
    share = _FLAT_SHARE if _knows_lr(history.epochs) else _FLAT_SHARE_WITHOUT_LR
    least = max(_FLAT_EPOCHS, int(np.ceil(share * len(history.epochs))))
    for first in range(len(train) - least + 1):
        tail = train[first:]
        line, span, level = fit_line(tail), len(tail) - 1, abs(float(tail.mean()))
        if abs(line.slope) * span < _FLAT * level and line.error * span < _FLAT * level and line.falls > 0.01:
            change = line.slope * span / level
            begin, lasting = f"{history.epochs.unit} {number[first]}", history.epochs.lasting(len(tail))
            text = f"since {begin} the training loss stands still ({change:+.1%} in {lasting})"
            numbers = {"epoch": float(number[first]), "epochs": float(len(tail)), "change": change}
            return Verdict(PLATEAU, text, numbers)
    return None


def _can_move(epochs: Epochs, phases: list[Phase]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Epochs of the last phase with a learning rate worth the name."""
    chosen = np.array([int(n) in phases[-1] for n in epochs.number]) & np.isfinite(epochs.train)
    if _knows_lr(epochs):
        chosen &= epochs.lr >= _FLAT_LR * epochs.lr.max()
    return chosen


def _knows_lr(epochs: Epochs) -> bool:
    return bool(np.isfinite(epochs.lr).all() and epochs.lr.max() > 0)


def _middle_of_three(values: Floats) -> Floats:
    padded = np.concatenate((values[:1], values, values[-1:]))
    return np.asarray(np.median(np.stack((padded[:-2], padded[1:-1], padded[2:])), axis=0))
