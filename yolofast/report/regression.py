"""How much of a fluctuation is due to what the batches held: least squares, each group after those before it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from yolofast.report.history import CONTENTS, MIX, Floats

_SURE = 1e-4


@dataclass(frozen=True)
class Effects:
    """`slopes[name]`: relative change of the loss per unit; `shares[name]`: of its variance, after those before it.

    A share is the adjusted R², so that chance explains nothing on average; all are 0 unless the whole is beyond chance.
    """

    slopes: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    alone: Mapping[str, float] = field(default_factory=dict)
    """Slopes of mosaic and mixup without the others: what they do through boxes and sizes is theirs."""
    values: Mapping[str, Floats] = field(default_factory=dict, repr=False)

    @property
    def share(self) -> float:
        return sum(self.shares.values())

    def share_of(self, names: Iterable[str]) -> float:
        return sum(self.shares.get(name, 0.0) for name in names)

    def fitted(self, count: int) -> Floats:
        return np.asarray(sum((slope * self.values[name] for name, slope in self.slopes.items()), np.zeros(count)))


def regress(values: Floats, contents: Mapping[str, Floats]) -> Effects:
    """`contents` without their means, in the order of `CONTENTS`: what mosaics explain, box counts do not any more."""
    names = [name for name in CONTENTS if name in contents and contents[name].std() > 1e-9]
    freedom = len(values) - len(names) - 1
    if not names or freedom < 20:
        return Effects()
    centred = values - values.mean()
    factors, explained = [], []
    for last in range(1, len(names) + 1):
        design = np.column_stack([contents[name] for name in names[:last]])
        factors = np.linalg.lstsq(design, centred, rcond=None)[0].tolist()
        left = centred - design @ np.array(factors)
        explained.append(_adjusted(1 - float(left @ left) / float(centred @ centred), len(values), last))
    whole = 1 - (1 - explained[-1]) * freedom / (len(values) - 1)
    surprise = whole / len(names) / max((1 - whole) / freedom, 1e-30)
    if stats.f.sf(surprise, len(names), freedom) > _SURE:
        return Effects()
    steps = np.maximum.accumulate(np.clip([0.0, *explained], 0, 1))
    return Effects(
        dict(zip(names, factors, strict=True)),
        dict(zip(names, np.diff(steps).tolist(), strict=True)),
        _slopes({name: contents[name] for name in names if name in MIX}, centred),
        {name: contents[name] for name in names},
    )


def _slopes(contents: Mapping[str, Floats], values: Floats) -> dict[str, float]:
    if not contents:
        return {}
    factors = np.linalg.lstsq(np.column_stack(list(contents.values())), values, rcond=None)[0]
    return dict(zip(contents, factors.tolist(), strict=True))


def _adjusted(share: float, count: int, factors: int) -> float:
    return 1 - (1 - share) * (count - 1) / (count - factors - 1)
