"""Which classes gain and which lose, where the runs have scores per class."""

from collections.abc import Sequence
from dataclasses import dataclass

from yolofast.report.compare.groups import Group
from yolofast.report.compare.spread import Spread, spread_of


@dataclass(frozen=True)
class ClassRow:
    name: str
    ap: tuple[float | None, ...]
    """AP50-95 of each kind of run."""
    ap50: tuple[float | None, ...]
    ap_std: tuple[float | None, ...]
    """Between the runs of each kind; None where there is one."""
    ap50_std: tuple[float | None, ...]

    @property
    def gain(self) -> float | None:
        """From the first kind to the last, in AP50-95."""
        return None if self.ap[0] is None or self.ap[-1] is None else self.ap[-1] - self.ap[0]

    @property
    def beyond_spread(self) -> bool:
        """The gain is larger than both standard deviations together; never where one is not known. No test: there are
        many classes."""
        first, last = self.ap_std[0], self.ap_std[-1]
        return self.gain is not None and first is not None and last is not None and abs(self.gain) > first + last


def per_class(groups: Sequence[Group]) -> list[ClassRow]:
    """Largest gain first. Empty unless two kinds of run have scores."""
    if sum(any(run.classes for run in group.runs) for group in groups) < 2:
        return []
    names = dict.fromkeys(name for group in groups for run in group.runs for name in run.classes)
    rows = [_row(name, *(_spreads(groups, name, measure) for measure in ("ap", "ap50"))) for name in names]
    return sorted(rows, key=lambda row: -(row.gain if row.gain is not None else -2))


def _spreads(groups: Sequence[Group], name: str, measure: str) -> list[Spread | None]:
    return [
        spread_of(getattr(run.classes[name], measure) for run in group.runs if name in run.classes) for group in groups
    ]


def _row(name: str, ap: Sequence[Spread | None], ap50: Sequence[Spread | None]) -> ClassRow:
    means = [tuple(None if one is None else one.mean for one in listed) for listed in (ap, ap50)]
    stds = [tuple(None if one is None or one.n < 2 else one.std for one in listed) for listed in (ap, ap50)]
    return ClassRow(name, *means, *stds)
