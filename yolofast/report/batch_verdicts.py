"""What the fluctuation of a loss around its smooth course shows: its causes, and whether it has a period."""

import numpy as np

from yolofast.report.course import around_course
from yolofast.report.early_validation import first_epochs
from yolofast.report.fluctuation import Fluctuation
from yolofast.report.history import Epochs, History
from yolofast.report.mix_forecast import varied
from yolofast.report.period import find_period
from yolofast.report.statistics import CALM
from yolofast.report.verdict import BOXES, LEARNING_RATE, MIX, NOISE, OSCILLATION, SIZE, Verdict

_LARGE_SHARE = 0.25
"""Of the variance around the smooth course: from here on something is a cause."""
_LEAST_PERIOD_SHARE = 0.15
"""Below it a network that wanders may look as if it had a period."""
_LEAST_VALIDATIONS = 32
LEAST_STD = 0.01
"""Of the level: below this a curve is smooth, whatever its rest is made of."""


def causes(around: Fluctuation | None) -> list[Verdict]:
    if around is None or around.std < LEAST_STD:
        return []
    shares, found = around.shares, []
    if shares.mix >= _LARGE_SHARE:
        kinds = " and ".join(f"{name}s" for name in varied(around))
        text = f"{shares.mix:.0%} of the fluctuation is how many {kinds} a batch holds"
        found.append(Verdict(MIX, text, {"share": shares.mix}))
    if shares.image_size >= _LARGE_SHARE:
        found.append(Verdict(SIZE, _about_size(around), {"share": shares.image_size}))
    if shares.boxes >= _LARGE_SHARE:
        text = f"{shares.boxes:.0%} of the fluctuation is how many and how large boxes a batch holds"
        found.append(Verdict(BOXES, text, {"share": shares.boxes}))
    if shares.learning_rate >= _LARGE_SHARE:
        found.append(Verdict(LEARNING_RATE, _about_rate(around), {"share": shares.learning_rate}))
    if shares.rest >= 0.6 and around.std >= CALM:
        text = f"the loss varies by {around.std:.1%}; {shares.rest:.0%} of it is which images a batch happens to have"
        found.append(Verdict(NOISE, text, {"share": shares.rest, "std": around.std}))
    return found


def _about_size(around: Fluctuation) -> str:
    sizes = around.effects.sizes
    low, high = min(sizes, key=lambda size: sizes[size]), max(sizes, key=lambda size: sizes[size])
    return (
        f"{around.shares.image_size:.0%} of the fluctuation is the size of the images, which multi-scale training "
        f"changes: from {sizes[low]:+.1%} at {low:g} pixels to {sizes[high]:+.1%} at {high:g}"
    )


def _about_rate(around: Fluctuation) -> str:
    text = f"{around.shares.learning_rate:.0%} of the fluctuation is the network wandering with too long steps"
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
    kept = np.isfinite(epochs.val) & (np.arange(len(epochs)) >= first_epochs(epochs))
    if kept.sum() < _LEAST_VALIDATIONS:
        return None
    left = around_course(epochs.val[kept])
    period = find_period(left)
    if period is None or period.amplitude < LEAST_STD:
        return None
    text = f"the validation loss oscillates by ±{period.amplitude:.1%} with a period of {epochs.lasting(period.length)}"
    return Verdict(OSCILLATION, text, {"period": period.length, "amplitude": period.amplitude, "chance": period.chance})
