"""How much a loss follows the size of the images, which multi-scale training changes.

A size is a category: the loss is often lowest near the size the network was trained at before, so that no line fits.
YOLOX keeps a size for ten batches, which are alike for many reasons; so it is the means of such stretches that are
compared (analysis of variance), not the batches. Sizes are drawn at random, which makes that fair to a loss that
wanders as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from yolofast.report.history import Floats, Ints

_SURE = 0.01
"""Larger than elsewhere: a short run draws few sizes, and a share that matters is asked for beside it."""
_LEAST_FREEDOM = 8


@dataclass(frozen=True)
class SizeEffect:
    share: float
    """Of the variance; adjusted, so that chance explains nothing on average."""
    levels: Mapping[float, float]
    """Pixels of a side -> how far the loss lies above the mean of all, as a share of its level."""
    of_values: Floats
    """The level of each value."""


def size_effect(values: Floats, sizes: Floats | None) -> SizeEffect | None:
    """None where sizes do not change, are too few to say, or explain no more than chance. `values` have a mean of 0."""
    if sizes is None or not len(changes := size_changes(sizes)):
        return None
    kinds, of_value = np.unique(sizes, return_inverse=True)
    starts = np.concatenate(([0], changes))
    lengths = np.diff([*starts.tolist(), len(values)]).astype(np.float64)
    means, kind = np.add.reduceat(values, starts) / lengths, of_value[starts]
    freedom = len(starts) - len(kinds)
    if freedom < _LEAST_FREEDOM:
        return None
    levels = np.bincount(kind, lengths * means) / np.bincount(kind, lengths)
    between, left = float(lengths @ means**2), float(lengths @ (means - levels[kind]) ** 2)
    surprise = (between - left) / (len(kinds) - 1) / max(left / freedom, 1e-30)
    if stats.f.sf(surprise, len(kinds) - 1, freedom) > _SURE:
        return None
    explained = max(between - left * (len(starts) - 1) / freedom, 0.0)
    named = dict(zip(kinds.tolist(), levels.tolist(), strict=True))
    return SizeEffect(explained / float(values @ values), named, levels[of_value])


def size_changes(sizes: Floats) -> Ints:
    """The places of values that have another size than the one before."""
    return np.flatnonzero(np.diff(sizes)) + 1
