"""Two configurations measured in turn: how much they differ, and how sure that is.

Blocks alternate, so what drifts – clocks, temperature, other people's jobs – hits both; neighbours are compared, and
the spread of their differences is the uncertainty.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from yolofast.profile.records import Spread
from yolofast.profile.statistics import spread

_CONFIDENCE = 0.95
_COARSE = 0.05
"""Of the time: a difference that matters could hide in a wider interval."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    first: Spread
    """Milliseconds per image, over blocks."""
    second: Spread
    difference: float
    """Second minus first."""
    uncertainty: float
    """Half of the 95 % interval of the difference; infinite with a single pair of blocks."""

    @property
    def is_real(self) -> bool:
        return abs(self.difference) > self.uncertainty

    @property
    def relative(self) -> float:
        return self.difference / self.first.mean

    @property
    def relative_uncertainty(self) -> float:
        return self.uncertainty / self.first.mean


def compare(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Milliseconds per image of alternating blocks, pair by pair: batches may differ in size."""
    differences = spread([b - a for a, b in zip(first, second, strict=True)])
    pairs = differences.samples
    reach = float(stats.t.ppf((1 + _CONFIDENCE) / 2, pairs - 1)) if pairs > 1 else math.inf
    uncertainty = reach * differences.std / math.sqrt(pairs) if pairs > 1 else math.inf
    return Comparison(first=spread(first), second=spread(second), difference=differences.mean, uncertainty=uncertainty)


def in_words(found: Comparison) -> str:
    pairs = f"{found.first.samples} pairs of blocks"
    if not math.isfinite(found.uncertainty):
        return "one pair of blocks says nothing about chance: give more --steps"
    change = f"{abs(found.relative):.1%} ± {found.relative_uncertainty:.1%}"
    if not found.is_real:
        more = "; more --steps would tell more" if found.relative_uncertainty > _COARSE else ""
        return f"no difference that can be told from chance: {change} over {pairs}{more}"
    factor = found.first.mean / found.second.mean
    more, speed = ("less", f"{factor:.2f}× faster") if factor > 1 else ("more", f"{1 / factor:.2f}× slower")
    return f"the second takes {change} {more} time per image: {speed} ({pairs}, 95 % interval)"
