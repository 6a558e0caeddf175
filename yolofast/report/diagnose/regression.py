"""How much of a fluctuation is due to the contents of the batches: least squares, group after group.

Each group has a test of its own, so that one that explains nothing cannot hide another. The image size is a category:
the loss is often lowest near the size the network was trained at before, so no line fits. YOLOX keeps a size for ten
batches, which are alike for many reasons, so the means of such stretches are compared (analysis of variance). Sizes are
drawn at random, which makes that fair to a loss that wanders as well.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy

from yolofast.report.logs.history import BOXES, MIX, SIZE, Floats, Ints

_SURE_OF_SIZES = 0.01
"""Larger than elsewhere: a short run draws few sizes, and its share has to matter as well."""
_LEAST_SIZES = 8


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
    if freedom < _LEAST_SIZES:
        return None
    levels = np.bincount(kind, lengths * means) / np.bincount(kind, lengths)
    between, left = float(lengths @ means**2), float(lengths @ (means - levels[kind]) ** 2)
    surprise = (between - left) / (len(kinds) - 1) / max(left / freedom, 1e-30)
    if scipy.special.fdtrc(len(kinds) - 1, freedom, max(surprise, 0.0)) > _SURE_OF_SIZES:
        return None
    explained = max(between - left * (len(starts) - 1) / freedom, 0.0)
    named = dict(zip(kinds.tolist(), levels.tolist(), strict=True))
    return SizeEffect(explained / float(values @ values), named, levels[of_value])


def size_changes(sizes: Floats) -> Ints:
    """The places of values that have another size than the one before."""
    return np.flatnonzero(np.diff(sizes)) + 1


_SURE = 1e-4
_LEAST_FREEDOM = 20


@dataclass(frozen=True)
class Effects:
    """`slopes[name]`: relative change of the loss per unit; `shares[name]`: of its variance, after those before it.

    A share is the adjusted R², so that chance explains nothing on average. Groups within chance are left out.
    """

    slopes: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    alone: Mapping[str, float] = field(default_factory=dict)
    """Slopes of mosaic and mixup without the others: what they do through boxes is theirs."""
    sizes: Mapping[float, float] = field(default_factory=dict)
    """Pixels of a side -> how far the loss lies above the mean of all sizes, as a share of its level."""
    fitted: Floats = field(default_factory=lambda: np.zeros(0), repr=False)
    """What all of them explain of each value."""

    @property
    def share(self) -> float:
        return min(sum(self.shares.values()), 1.0)

    def share_of(self, names: Iterable[str]) -> float:
        return sum(self.shares.get(name, 0.0) for name in names)


def regress(values: Floats, contents: Mapping[str, Floats], sizes: Floats | None = None) -> Effects:
    """`contents` without their means: what mosaics explain, box counts do not any more. `sizes` as they are."""
    centred = values - values.mean()
    used: dict[str, Floats] = {}
    shares: dict[str, float] = {}
    _add_group(centred, used, shares, {name: contents[name] for name in MIX if name in contents})
    alone = _slopes(centred, used)
    left = _left(centred, used)
    of_size = size_effect(left, sizes)
    if of_size is not None:  # its share is of what was left
        used[SIZE], shares[SIZE] = of_size.of_values, of_size.share * float(left @ left) / float(centred @ centred)
    _add_group(centred, used, shares, {name: contents[name] for name in BOXES if name in contents})
    slopes = _slopes(centred, used)
    fitted = centred - _left(centred, used)
    slopes.pop(SIZE, None)  # a size is no quantity
    return Effects(slopes, shares, alone, {} if of_size is None else of_size.levels, fitted)


def _add_group(centred: Floats, used: dict[str, Floats], shares: dict[str, float], group: Mapping[str, Floats]) -> None:
    """To `used` and `shares`, if what it explains beyond them is more than chance."""
    group = {name: column for name, column in group.items() if column.std() > 1e-9}
    factors = len(used) + len(group)
    freedom = len(centred) - factors - 1
    if not group or freedom < _LEAST_FREEDOM:
        return
    before, after = (float(np.square(_left(centred, columns)).sum()) for columns in (used, used | group))
    surprise = (before - after) / len(group) / max(after / freedom, 1e-30)
    if scipy.special.fdtrc(len(group), freedom, max(surprise, 0.0)) > _SURE:
        return
    for name, column in group.items():
        explained = _adjusted(centred, used)
        used[name] = column
        shares[name] = max(_adjusted(centred, used) - explained, 0.0)


def _left(centred: Floats, columns: Mapping[str, Floats]) -> Floats:
    slopes = _slopes(centred, columns)
    return np.asarray(centred - sum((slope * columns[name] for name, slope in slopes.items()), np.zeros(len(centred))))


def _slopes(centred: Floats, columns: Mapping[str, Floats]) -> dict[str, float]:
    if not columns:
        return {}
    factors = np.linalg.lstsq(np.column_stack(list(columns.values())), centred, rcond=None)[0]
    return dict(zip(columns, factors.tolist(), strict=True))


def _adjusted(centred: Floats, columns: Mapping[str, Floats]) -> float:
    left, count = _left(centred, columns), len(centred)
    return 1 - float(left @ left) / float(centred @ centred) * (count - 1) / (count - len(columns) - 1)
