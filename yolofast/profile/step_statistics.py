"""From the phases of single steps to means, spreads and shares; two configurations compared.

Blocks of both configurations alternate, so drift (clocks, temperature, other jobs) affects both. Neighbours are
compared, and the spread of their differences is the uncertainty.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

import scipy

from yolofast.profile.records import PhaseFigures, TimeSpread
from yolofast.profile.step_phases import AUGMENT, DATA_WAIT, ORDER, TO_DEVICE

Milliseconds = Mapping[str, float]
"""By phase."""
_AROUND_GRAPHS = (DATA_WAIT, TO_DEVICE, AUGMENT)
_CONFIDENCE = 0.95
_COARSE = 0.05
"""Of the time: a difference that matters could hide in a wider interval."""


def spread(values: Sequence[float]) -> TimeSpread:
    return TimeSpread(fmean(values), stdev(values) if len(values) > 1 else 0.0, len(values))


def phase_figures(
    steps: Sequence[Milliseconds], asleep: Sequence[Milliseconds] = (), around: Sequence[Milliseconds] = ()
) -> tuple[PhaseFigures, ...]:
    """A phase that a step did not have, such as moving the weights, took it 0 ms. `around` are further steps, whose
    graphs were not looked into: a wait for data that comes once an epoch is not missed, nor counted for several. Waits
    for data come in bursts; sleep within the step counts by its median, so that one interrupted step is no wait per
    step."""
    if not steps:
        return ()
    columns = _columns(steps)
    for name in columns.keys() & set(_AROUND_GRAPHS):
        columns[name] += [step.get(name, 0.0) for step in around]
    total = sum(fmean(column) for column in columns.values())
    sleeping = {
        name: fmean(column) if name in _AROUND_GRAPHS else median(column) for name, column in _columns(asleep).items()
    }
    return tuple(_figures(name, column, total, asleep_ms=sleeping.get(name, 0.0)) for name, column in columns.items())


def parallel_phase(name: str, values: Sequence[float], step_ms: float, where: str) -> PhaseFigures:
    """A phase that runs at the same time as the step."""
    return _figures(name, values, step_ms, beside=where)


def _figures(name: str, values: Sequence[float], whole_ms: float, **more: Any) -> PhaseFigures:
    own, share = spread(values), fmean(values) / whole_ms if whole_ms else 0.0
    return PhaseFigures(name=name, mean_ms=own.mean, std_ms=own.std, median_ms=median(values), share=share, **more)


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of the union of the spans."""
    total, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        begin = max(begin, until)
        if end > begin:
            total, until = total + end - begin, end
    return total


def _columns(steps: Sequence[Milliseconds]) -> dict[str, list[float]]:
    """In the order of the step; names that are not ours come last."""
    names = {name for step in steps for name in step}
    ordered = [name for name in ORDER if name in names] + sorted(names - set(ORDER))
    return {name: [step.get(name, 0.0) for step in steps] for name in ordered}


@dataclass(frozen=True, kw_only=True)
class ProfileComparison:
    first: TimeSpread
    """Milliseconds per image, over blocks."""
    second: TimeSpread
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


def compare(first: Sequence[float], second: Sequence[float]) -> ProfileComparison:
    """Milliseconds per image of alternating blocks, pair by pair: batches may differ in size."""
    differences = spread([b - a for a, b in zip(first, second, strict=True)])
    pairs = differences.samples
    reach = float(scipy.special.stdtrit(pairs - 1, (1 + _CONFIDENCE) / 2)) if pairs > 1 else math.inf
    uncertainty = reach * differences.std / math.sqrt(pairs) if pairs > 1 else math.inf
    return ProfileComparison(
        first=spread(first), second=spread(second), difference=differences.mean, uncertainty=uncertainty
    )


def in_words(found: ProfileComparison) -> str:
    pairs = f"{found.first.samples} pairs of blocks"
    if not math.isfinite(found.uncertainty):
        return "one pair of blocks says nothing about chance: give more --steps"
    change = f"{abs(found.relative):.1%} ± {found.relative_uncertainty:.1%}"
    if not found.is_real:
        more = "; more --steps would tell more" if found.relative_uncertainty > _COARSE else ""
        return f"no difference beyond chance: {change} over {pairs}{more}"
    factor = found.first.mean / found.second.mean
    more, speed = ("less", f"{factor:.2f}× faster") if factor > 1 else ("more", f"{1 / factor:.2f}× slower")
    return f"the second takes {change} {more} time per image: {speed} ({pairs}, 95 % interval)"
