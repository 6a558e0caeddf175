"""What is wrong with a run, and the numbers this rests on.

The losses of the epochs show divergence, overfitting and a plateau; the fluctuation around the smooth course shows its
causes and a period. A validation loss far above the training loss in the first epochs is a remark and no verdict: it
passes by itself, and no shipped weights come from those epochs.
"""

from dataclasses import dataclass, field

import numpy as np

from yolofast.files.known_numbers import HUGE
from yolofast.report.diagnose.fluctuation import Fluctuation, around_course
from yolofast.report.diagnose.forecast import varied
from yolofast.report.diagnose.period import find_period
from yolofast.report.diagnose.phases import Phase, stretches
from yolofast.report.diagnose.spikes import Spikes
from yolofast.report.diagnose.statistics import CALM, cautious_noise, fit_line, in_digits, noise_between
from yolofast.report.logs.history import Bools, Epochs, Floats, History
from yolofast.runs.divergence import first_epochs

DIVERGENCE, OVERFITTING, PLATEAU = "divergence", "overfitting", "plateau"
LEARNING_RATE, MIX, SIZE, BOXES = "learning rate", "data mix", "image size", "boxes"
OSCILLATION, NOISE, SPIKES = "oscillation", "batch noise", "rare spikes"


@dataclass(frozen=True)
class Verdict:
    kind: str
    text: str
    numbers: dict[str, float] = field(default_factory=dict)


LEAST_EPOCHS = 6
"""Below it no rule has anything to say, except of a NaN loss."""
_RISE, _RISE_IN_ERRORS = 0.15, 6.0
_OVERFIT_EPOCHS, _OVERFIT_RISE, _OVERFIT_CHANCE = 5, 0.02, 1e-3
_FLAT, _FLAT_EPOCHS, _FLAT_LR = 0.01, 8, 0.2
_FLAT_SHARE, _FLAT_SHARE_WITHOUT_LR = 0.3, 0.5


def divergence(history: History, phases: list[Phase]) -> Verdict | None:
    """The loss is NaN, or ended well above what it had reached before under the same conditions."""
    loss, _, epoch, what = history.finest
    broken = np.flatnonzero(np.isinf(loss))
    if len(broken):
        first = int(epoch[broken[0]])
        many = "" if len(broken) == 1 else "es" if what == "batch" else "s"
        words = f"{len(broken):,} {what}{many}"
        text = f"the loss was NaN, or above {HUGE:g}, in {words}, first in {history.epochs.unit} {first}"
        return Verdict(DIVERGENCE, text, {"epoch": first, "values": len(broken)})
    if (lost := _lost(history)) is not None:
        return lost
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


def _lost(history: History) -> Verdict | None:
    """The run ended with losses of a network that is of no use, although they are numbers."""
    lost = history.lost
    if not lost[-1]:
        return None
    place = max((i for i, why in enumerate(lost) if not why), default=-1) + 1
    first = int(history.epochs.number[place])
    text = f"in {history.epochs.unit} {first} {lost[place]}; it did not come back"
    return Verdict(DIVERGENCE, text, {"epoch": first, "lost": len(lost) - place})


def overfitting(history: History, phases: list[Phase]) -> Verdict | None:
    """The validation loss rises from its minimum on, beyond its noise, while the training loss still falls."""
    epochs = history.one_validation
    known = np.isfinite(epochs.val) & np.isfinite(epochs.train)
    number, val, train = (getattr(epochs, name)[known] for name in ("number", "val", "train"))
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
    good = epochs.fitness[known]
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


def _can_move(epochs: Epochs, phases: list[Phase]) -> Bools:
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


_FAR = 5.0
"""Times the training loss, and times what the same ratio is afterwards."""


def early_validation(epochs: Epochs) -> str | None:
    first = first_epochs(len(epochs))
    known = np.isfinite(epochs.val) & np.isfinite(epochs.train) & (epochs.train > 0)
    ratio = np.divide(epochs.val, epochs.train, out=np.full(len(epochs), np.nan), where=known)
    early, later = known & (np.arange(len(epochs)) < first), known & (np.arange(len(epochs)) >= first)
    usual = float(np.median(ratio[later])) if later.any() else 1.0
    far = np.flatnonzero(early & (ratio > _FAR) & (ratio > _FAR * usual))
    if not len(far):
        return None
    worst, last = far[ratio[far].argmax()], int(epochs.number[far[-1]])
    return (
        f"the validation loss was {in_digits(epochs.val[worst])} in epoch {epochs.number[worst]}, where training had "
        f"{epochs.train[worst]:.3g}. So early the statistics of BatchNorm, or the average of the weights, are still "
        f"behind the network that learns. Judge validation from epoch {last + 1} on; if it lasts, take a longer "
        "warm-up or larger batches, or start from pretrained weights"
    )


_LARGE_SHARE = 0.25
"""Of the variance around the smooth course: from here on something is a cause."""
_LEAST_PERIOD_SHARE = 0.15
"""Below it a network that wanders may look as if it had a period."""
_LEAST_VALIDATIONS = 32
LEAST_STD = 0.01
"""Of the level: below this a curve is smooth, whatever its rest is made of."""


def causes(history: History, around: Fluctuation | None) -> list[Verdict]:
    found = [] if around is None or around.spikes is None else [_of_spikes(history, around, around.spikes)]
    if around is None or around.std < LEAST_STD:
        return found
    shares = around.shares
    for kind, share, words in (
        (MIX, shares.mix, _about_mix),
        (SIZE, shares.image_size, _about_size),
        (BOXES, shares.boxes, lambda _: "how many and how large boxes a batch holds"),
        (LEARNING_RATE, shares.learning_rate, _about_rate),
    ):
        if share >= _LARGE_SHARE:
            found.append(Verdict(kind, f"{share:.0%} of the fluctuation is {words(around)}", {"share": share}))
    if shares.rest >= 0.6 and around.std >= CALM:
        text = f"the loss varies by {around.std:.1%}; {shares.rest:.0%} of it is which images a batch happens to have"
        found.append(Verdict(NOISE, text, {"share": shares.rest, "std": around.std}))
    return found


def _of_spikes(history: History, around: Fluctuation, spikes: Spikes) -> Verdict:
    count, all_of_them, what = len(spikes), around.values + len(spikes), history.finest[3]
    are = "is" if count == 1 else "are"
    text = (
        f"{count} of {all_of_them:,} {what}{'es' if what == 'batch' else 's'} {are} far above the others, up to "
        f"{spikes.highest:.1f} times as high, and make {spikes.share:.0%} of the variance; "
        f"the others vary by {around.std:.1%}"
    )
    return Verdict(SPIKES, text, {"count": count, "share": spikes.share, "highest": spikes.highest})


def where_spiked(history: History, spikes: Spikes) -> list[dict[str, int]]:
    """Epochs and, where losses are of batches, their place among those recorded of it, both from 1."""
    _, _, epoch, what = history.finest
    numbers = epoch[spikes.places].tolist()
    if what == "epoch":
        return [{"epoch": number} for number in numbers]
    within = spikes.places - np.searchsorted(epoch, epoch[spikes.places]) + 1
    return [{"epoch": number, "batch": batch} for number, batch in zip(numbers, within.tolist(), strict=True)]


def _about_mix(around: Fluctuation) -> str:
    return f"how many {' and '.join(f'{name}s' for name in varied(around))} a batch holds"


def _about_size(around: Fluctuation) -> str:
    (low, least), *_, (high, most) = sorted(around.effects.sizes.items(), key=lambda pair: pair[1])
    levels = f"from {least:+.1%} at {low:g} pixels to {most:+.1%} at {high:g}"
    return f"the size of the images, which multi-scale training changes: {levels}"


def _about_rate(around: Fluctuation) -> str:
    text = "the network wandering with too long steps"
    if np.isfinite(around.slope_ratio):
        return f"{text}; short stretches are {around.slope_ratio:.1f} times as steep where the learning rate is high"
    return f"{text} (the learning rate is not known or hardly changed, so that this is its doing cannot be tested)"


def oscillation(history: History, around: Fluctuation | None, epoch_batches: float) -> Verdict | None:
    if around is not None and around.period is not None and around.std >= LEAST_STD:
        period, share = around.period, around.shares.period
        if share >= _LEAST_PERIOD_SHARE:
            epochs = period.length / epoch_batches
            text = f"the loss oscillates by ±{period.amplitude:.1%} with a period of {history.epochs.lasting(epochs)}"
            numbers = {"period": epochs, "amplitude": period.amplitude, "share": share, "chance": period.chance}
            return Verdict(OSCILLATION, text, numbers)
    return _of_validation(history.one_validation)


def _of_validation(epochs: Epochs) -> Verdict | None:
    # A beginning that is far off would bend the whole course.
    known = np.isfinite(epochs.val) & (np.arange(len(epochs)) >= first_epochs(len(epochs)))
    if known.sum() < _LEAST_VALIDATIONS:
        return None
    left = around_course(epochs.val[known])
    period = find_period(left)
    if period is None or period.amplitude < LEAST_STD:
        return None
    text = f"the validation loss oscillates by ±{period.amplitude:.1%} with a period of {epochs.lasting(period.length)}"
    return Verdict(OSCILLATION, text, {"period": period.length, "amplitude": period.amplitude, "chance": period.chance})


def find_verdicts(
    history: History, phases: list[Phase], around: Fluctuation | None, epoch_batches: float
) -> list[Verdict]:
    """`epoch_batches` are the values of an epoch in `around`."""
    found = [divergence(history, phases), overfitting(history, phases), plateau(history, phases)]
    found += [*causes(history, around), oscillation(history, around, epoch_batches)]
    verdicts = [verdict for verdict in found if verdict is not None]
    if found[0] is not None:  # a loss that diverges overfits and fluctuates as well
        return [verdict for verdict in verdicts if verdict.kind in (DIVERGENCE, LEARNING_RATE)]
    return verdicts
