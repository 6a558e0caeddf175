"""From the phases of single steps to means, spreads and shares."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, stdev

from yolofast.profile.phases import AUGMENT, DATA_WAIT, ORDER, TO_DEVICE
from yolofast.profile.records import PhaseFigures, Spread

Milliseconds = Mapping[str, float]
"""By phase."""
_AROUND_GRAPHS = (DATA_WAIT, TO_DEVICE, AUGMENT)


def spread(values: Sequence[float]) -> Spread:
    return Spread(fmean(values), stdev(values) if len(values) > 1 else 0.0, len(values))


def phase_figures(
    steps: Sequence[Milliseconds], asleep: Sequence[Milliseconds] = (), around: Sequence[Milliseconds] = ()
) -> tuple[PhaseFigures, ...]:
    """A phase that a step did not have, such as moving the weights, took it 0 ms. `around` are further steps, whose
    graphs were not looked into: a wait for data that comes once an epoch is not missed, nor counted for several."""
    if not steps:
        return ()
    columns = _columns(steps)
    for name in columns.keys() & set(_AROUND_GRAPHS):
        columns[name] += [step.get(name, 0.0) for step in around]
    total = sum(fmean(column) for column in columns.values())
    sleeping = {name: fmean(column) for name, column in _columns(asleep).items()} if asleep else {}
    figures = []
    for name, column in columns.items():
        own = spread(column)
        figures.append(
            PhaseFigures(
                name=name,
                mean_ms=own.mean,
                std_ms=own.std,
                median_ms=median(column),
                share=own.mean / total if total else 0.0,
                asleep_ms=sleeping.get(name, 0.0),
            )
        )
    return tuple(figures)


def beside(name: str, values: Sequence[float], step_ms: float, where: str) -> PhaseFigures:
    """A phase that runs at the same time as the step."""
    own = spread(values)
    return PhaseFigures(
        name=name,
        mean_ms=own.mean,
        std_ms=own.std,
        median_ms=median(values),
        share=own.mean / step_ms,
        beside=where,
    )


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """For how long there is a span, overlaps counted once."""
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
