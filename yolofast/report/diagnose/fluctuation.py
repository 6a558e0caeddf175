"""What is left of a loss without its smooth course, and where that comes from.

Rare spikes are told apart and taken out first (`spikes.py`). The order of the others is that in which causes can be
told apart. What a batch holds is known, so it explains what it can first; then a period. Of the rest, what neighbouring
batches share or what grows with the learning rate is a network that wanders. What remains is noise: which images a
batch happens to have.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy

from yolofast.report.diagnose.period import Period, find_period, without_period
from yolofast.report.diagnose.regression import Effects, regress, size_changes
from yolofast.report.diagnose.spikes import Spikes, beside_medians, rare_spikes, share_of
from yolofast.report.logs.history import BOXES, MIX, SIZE, Bools, Floats, Ints

_MOST_BLOCKS, _WINDOW = 256, 6


def around_course(values: Floats) -> Floats:
    """Relative to a course that bends slowly: a parabola through every 6th of the values."""
    return np.asarray(values / smooth_course(values) - 1)


def smooth_course(values: Floats) -> Floats:
    blocks = np.array_split(values, min(_MOST_BLOCKS, len(values)))
    means = np.array([block.mean() for block in blocks])
    window = max(len(means) // _WINDOW, 5) | 1
    course = scipy.signal.savgol_filter(means, min(window, (len(means) - 1) | 1), 2, mode="interp")
    ends = np.cumsum([len(block) for block in blocks])
    centres = ends - np.array([len(block) for block in blocks]) / 2 - 0.5
    smooth = np.interp(np.arange(len(values)), centres, course)
    return np.asarray(np.maximum(smooth, 1e-3 * float(np.abs(means).max()) or 1.0))


LEAST = 40
"""Values below which nothing is said."""
_LR_BLOCKS, _LEAST_PER_BLOCK, _LR_RANGE = 40, 8, 2.0
_SURE = 1e-4
_LOWEST = 0.1
"""Of the level: what a size may leave of a loss."""
_WANDERS, _WANDERS_ACROSS_SIZES, _WANDERS_ELSEWHERE = 4.5, 2.5, 2.5
"""Standard errors."""
_STRETCHES = 12


@dataclass(frozen=True)
class Shares:
    """Of the variance around the smooth course; they add up to 1."""

    mix: float = 0.0
    """Mosaics and mixups in the batch."""
    image_size: float = 0.0
    """The size of the images, which multi-scale training changes."""
    boxes: float = 0.0
    """Boxes in the batch and their size, beyond what mosaics explain."""
    period: float = 0.0
    learning_rate: float = 0.0
    wandering: float = 0.0
    """Alike from one value to the next, but not tied to a learning rate that changed."""
    rest: float = 1.0


@dataclass(frozen=True)
class Fluctuation:
    std: float
    """Around the smooth course, as a share of the level."""
    shares: Shares
    effects: Effects
    period: Period | None
    slope_ratio: float
    """How much steeper short stretches are where the learning rate is high than where it is low; nan if it is even."""
    values: int
    around: Floats = field(repr=False)
    """What is left when the smooth course is taken away, as a share of it."""
    spikes: Spikes | None = None
    """Values that are left out of all of these."""


@dataclass(frozen=True)
class LossSeries:
    """Values that were measured one after the other, all under the same conditions within a `part`."""

    loss: Floats
    lr: Floats
    part: Ints
    place: Ints
    """Among all losses of the run."""
    contents: Mapping[str, Floats] = field(default_factory=dict)

    def where(self, chosen: Bools) -> "LossSeries":
        contents = {name: values[chosen] for name, values in self.contents.items()}
        return LossSeries(self.loss[chosen], self.lr[chosen], self.part[chosen], self.place[chosen], contents)


def fluctuation(series: LossSeries) -> Fluctuation | None:
    """None if there is too little to say anything, or a loss that has no scale because it is not positive."""
    parts = [series.part == part for part in np.unique(series.part)]
    long = [part for part in parts if part.sum() >= LEAST]
    if not long or not (series.loss > 0).all():
        return None
    series = series.where(np.any(long, axis=0))
    around = _around(series, series.loss)
    explained = regress(around, _centred(series), series.contents.get(SIZE)).fitted
    by_median = np.concatenate([beside_medians(series.loss[series.part == part]) for part in np.unique(series.part)])
    spiked = rare_spikes(by_median - explained)
    found = _explained(series.where(~spiked))
    if not spiked.any():
        return found
    spikes = Spikes(series.place[spiked], 1 + float(around[spiked].max()), share_of(around, spiked))
    return dataclasses.replace(found, spikes=spikes)


def _explained(series: LossSeries) -> Fluctuation:
    around = _around(series, series.loss)
    if not around.var() > 0:
        return Fluctuation(0.0, Shares(), Effects(), None, float("nan"), len(around), around)
    sizes = series.contents.get(SIZE)
    effects = regress(around, _centred(series), sizes)
    if sizes is not None and effects.sizes:  # sizes that stay for a while have bent the course
        levels = np.array([effects.sizes[size] for size in sizes.tolist()])
        around = _around(series, series.loss / np.maximum(1 + levels, _LOWEST))
        effects = regress(around, _centred(series), sizes)
    variance = float(around.var())
    left = around - effects.fitted
    period = find_period(left)
    if period is not None:
        left = without_period(left, period)
    of_period = 0.0 if period is None else max(1 - float(left.var()) / variance - effects.share, 0.0)
    rest = max(1 - effects.share - of_period, 0.0)
    rate, wander, ratio = _moving_part(left, series.lr, sizes)
    of_contents = (effects.share_of(MIX), effects.share_of((SIZE,)), effects.share_of(BOXES))
    shares = Shares(*of_contents, of_period, rest * rate, rest * wander, rest * (1 - rate - wander))
    return Fluctuation(variance**0.5, shares, effects, period, ratio, len(around), around)


def _around(series: LossSeries, steady: Floats) -> Floats:
    """The losses beside the course of `steady`, which is theirs without what is known to move them."""
    parts = [series.part == part for part in np.unique(series.part)]
    return np.concatenate([series.loss[part] / smooth_course(steady[part]) - 1 for part in parts])


def _centred(series: LossSeries) -> dict[str, Floats]:
    """Within each part, whose level the smooth course has taken away."""
    centred = {}
    for name, values in series.contents.items():
        moved = values.copy()
        for part in np.unique(series.part):
            moved[series.part == part] -= values[series.part == part].mean()
        centred[name] = moved
    return centred


def _moving_part(left: Floats, lr: Floats, sizes: Floats | None) -> tuple[float, float, float]:
    """Shares of the rest: due to the learning rate, and other wandering; and how slopes differ with the rate.

    A network that takes too long steps wanders: its losses are alike for a while. That the noise of batches is not.
    Where the rate changed, steps are to blame only if there is more movement where it was high.
    """
    wander = wandering_share(left, sizes)
    known = np.isfinite(lr).all() and lr.max() > 0
    blocks = min(_LR_BLOCKS, len(left) // _LEAST_PER_BLOCK)
    if not known or lr.max() < _LR_RANGE * lr.min() or blocks < 8:
        return wander, 0.0, float("nan")
    variance = np.array([block.var() for block in np.array_split(left, blocks)])
    slopes = np.array([np.polyfit(np.arange(len(b)), b, 1)[0] for b in np.array_split(left, blocks)])
    rate = np.array([block.mean() for block in np.array_split(lr, blocks)])
    agreement = scipy.stats.spearmanr(rate, variance)
    third = np.argsort(rate, kind="stable")
    low, high = third[: blocks // 3], third[-(blocks // 3) :]
    ratio = float(np.sqrt(np.mean(slopes[high] ** 2) / max(float(np.mean(slopes[low] ** 2)), 1e-30)))
    if not (agreement.statistic > 0 and agreement.pvalue < _SURE):
        return 0.0, wander, ratio
    slope = np.polyfit(rate, variance, 1)[0]
    due = float(np.clip(slope * (rate.mean() - rate.min()) / variance.mean(), 0, 1))
    return max(due, wander), 0.0, ratio


def wandering_share(values: Floats, sizes: Floats | None = None) -> float:
    """Of the variance, what neighbours have in common (von Neumann's ratio), if that is more than chance.

    Where sizes change, neighbours that differ in it have to be alike as well: others may be because of their size.
    """
    variance = float(values.var())
    if not variance > 0:
        return 0.0
    steps = np.diff(values)
    alike = _alike(steps, variance)
    is_sure = alike * np.sqrt(len(steps)) > _WANDERS and _wanders_all_along(values)
    if sizes is not None and len(changes := size_changes(sizes)):
        is_sure &= _alike(steps[changes - 1], variance) * np.sqrt(len(changes)) > _WANDERS_ACROSS_SIZES
    return alike if is_sure else 0.0


def _wanders_all_along(values: Floats) -> bool:
    """Also without the third of the run that does most: a single bump or step is an event, and no wandering."""
    parts = np.array_split(values, _STRETCHES)
    together = [float(np.mean(part**2) - np.mean(np.diff(part) ** 2) / 2) for part in parts]
    calmer = [parts[i] for i in np.argsort(together)[: _STRETCHES - _STRETCHES // 3]]
    steps = np.concatenate([np.diff(part) for part in calmer])
    alike = _alike(steps, float(np.mean(np.concatenate(calmer) ** 2)))
    return bool(alike * np.sqrt(len(steps)) > _WANDERS_ELSEWHERE)


def _alike(steps: Floats, variance: float) -> float:
    return 1 - float(np.mean(steps**2)) / 2 / variance
