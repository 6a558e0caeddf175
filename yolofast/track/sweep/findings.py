"""What a search shows: the best setting and how sure that is, what each setting does, and which trade-offs there are.

The best of many settings is partly luck. Its uncertainty comes from the sequences, which are what another day would
change: they are drawn again with replacement, a thousand times. And each sequence is left out once, the best setting
chosen on the others and scored on the one left out: that is what to expect of sequences nobody has tuned on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from yolofast.track.formats.sequence import Bools, Floats, Ints
from yolofast.track.sweep.figures import FIGURES, worth
from yolofast.track.sweep.search import Searched
from yolofast.track.sweep.space import TRACKER, Trial, Value, are_usual, searched_names, shown_value

FRONT = ("HOTA", "IDSW", "MOTA", "FP")
"""Settings on the front: no other one is at least as good in all of these and better in one."""
_SAMPLES = 1000
_AT_ONCE = 2_000_000
"""Numbers of a product of matrices: some tens of megabytes."""
_INTERVAL = 2.5, 97.5
_MOST_VALUES, _BINS = 12, 8


class Interval(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class SettingDifference:
    """Of the best setting from another one, by the criterion; above 0 it is better."""

    trial: int
    value: float
    interval: Interval | None


@dataclass(frozen=True)
class ValueEffect:
    value: str
    number: float | None
    """To draw it; None for words."""
    count: int
    mean: float
    best: float
    """Of the criterion, over all settings with this value."""
    switches: float
    """Mean of IDSW."""


@dataclass(frozen=True)
class SettingEffect:
    name: str
    values: tuple[ValueEffect, ...]

    @property
    def size(self) -> float:
        """From the worst to the best mean."""
        means = [one.mean for one in self.values]
        return max(means) - min(means)


@dataclass(frozen=True, eq=False)
class Findings:
    searched: Searched
    by: str
    figures: dict[str, Floats]
    """[trials] each, of all sequences together."""
    best: int
    interval: Interval | None
    """Of the best setting's criterion, 95 %; None with a single sequence."""
    share_best: float | None
    """Of the samples of sequences, in how many it is the best."""
    as_good: tuple[int, ...]
    """Settings that cannot be told from the best one: they are better in more than one of 40 samples."""
    left_out: float | None
    """The criterion if each sequence is scored with what is best on the others."""
    usual: frozenset[int]
    """Trackers as they come."""
    defaults: tuple[SettingDifference, ...]
    """From the first of these of each tracker."""
    order: tuple[int, ...]
    """The best first."""
    front: tuple[int, ...]
    effects: tuple[SettingEffect, ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        return self.searched.trials


def find_out(searched: Searched, by: str) -> Findings:
    total = searched.rows.sum(1)
    figures = {name: figure.of(total) for name, figure in FIGURES.items()}
    usual = np.array(are_usual(searched.trials))
    # Of equals a tracker as it comes, then the one with fewer switches.
    order: list[int] = np.lexsort((figures["IDSW"], ~usual, -worth(by, figures[by]))).tolist()
    best = order[0]
    several = len(searched.sequences) > 1
    sampled = _Samples(searched.rows, by) if several else None
    return Findings(
        searched=searched,
        by=by,
        figures=figures,
        best=best,
        interval=None if sampled is None else _interval(sampled.figure(searched.rows[best])),
        share_best=None if sampled is None else sampled.share_best(best),
        as_good=() if sampled is None else _as_good(sampled, searched.rows, best),
        left_out=_left_out(searched.rows, by) if several else None,
        usual=frozenset(np.flatnonzero(usual).tolist()),
        defaults=tuple(_differences(searched, np.flatnonzero(usual).tolist(), best, by, sampled)),
        order=tuple(order),
        front=tuple(front_of(np.stack([worth(name, figures[name]) for name in FRONT], axis=1)).tolist()),
        effects=tuple(
            sorted(
                (
                    _effect(name, searched.trials, figures[by], figures["IDSW"], by)
                    for name in searched_names(searched.trials)
                ),
                key=lambda effect: -effect.size,
            )
        ),
    )


class _Samples:
    """Sequences drawn with replacement; always the same ones, so that two calls agree."""

    def __init__(self, rows: Floats, by: str) -> None:
        count = rows.shape[1]
        drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), _SAMPLES)
        self._weights, self._by = drawn.astype(np.float64), by
        step = max(1, _AT_ONCE // (_SAMPLES * rows.shape[2]))
        self.values = np.empty((_SAMPLES, len(rows)), np.float32)
        """[samples, settings] the criterion, more is better."""
        for start in range(0, len(rows), step):
            self.values[:, start : start + step] = self.of(rows[start : start + step])

    def share_best(self, place: int) -> float:
        """Of the samples in which no setting is better than this one; several can be the best."""
        return float((self.values[:, place] >= self.values.max(1)).mean())

    def figure(self, rows: Floats) -> Floats:
        """[samples, …] of rows […, sequences, WIDTH]."""
        return FIGURES[self._by].of(np.moveaxis(self._weights @ rows, -2, 0))

    def of(self, rows: Floats) -> Floats:
        """The same, more is better."""
        return worth(self._by, self.figure(rows))


def _interval(values: Floats) -> Interval:
    low, high = np.percentile(values, _INTERVAL)
    return Interval(float(low), float(high))


def _as_good(sampled: _Samples, rows: Floats, best: int) -> tuple[int, ...]:
    ahead = (sampled.values > sampled.values[:, best : best + 1]).mean(0) > _INTERVAL[0] / 100
    same = (rows == rows[best]).all((1, 2))
    return tuple(place for place in np.flatnonzero(ahead | same).tolist() if place != best)


def _left_out(rows: Floats, by: str) -> float:
    """Sums over the other sequences choose, the one left out is added up."""
    total = rows.sum(1)
    chosen = [worth(by, FIGURES[by].of(total - rows[:, place])).argmax() for place in range(rows.shape[1])]
    return float(FIGURES[by].of(rows[chosen, np.arange(rows.shape[1])].sum(0)))


def _differences(
    searched: Searched, usual: Sequence[int], best: int, by: str, sampled: _Samples | None
) -> Iterable[SettingDifference]:
    own = searched.rows[best]
    first = {searched.trials[place][TRACKER]: place for place in reversed(usual)}
    for place in sorted(first.values()):
        rows = searched.rows[place]
        value = float(worth(by, FIGURES[by].of(own.sum(0))) - worth(by, FIGURES[by].of(rows.sum(0))))
        interval = None
        if sampled is not None:
            interval = _interval(sampled.of(own) - sampled.of(rows))
        yield SettingDifference(place, value, interval)


def behind_best(rows: Floats, by: str) -> list[Interval]:
    """[n, sequences, WIDTH] of others of the same sequences: how far each is behind the best of them, 95 %."""
    sampled, total = _Samples(rows, by), worth(by, FIGURES[by].of(rows.sum(1)))
    best = sampled.of(rows[total.argmax()])
    return [_interval(best - sampled.of(own)) for own in rows]


def front_of(values: Floats) -> Ints:
    """[n, k], more is better: places of those that no other one dominates, of equal ones the first."""
    _, first = np.unique(values, axis=0, return_index=True)
    order = first[np.lexsort(-values[first].T[::-1])]  # who dominates another one comes before it
    kept: list[int] = []
    chosen = np.zeros((0, values.shape[1]))
    for place in order.tolist():
        if not (chosen >= values[place]).all(1).any():
            kept.append(place)
            chosen = values[kept]
    return np.array(kept, np.int64)


def _effect(name: str, trials: Sequence[Trial], value: Floats, switches: Floats, by: str) -> SettingEffect:
    """Over the settings that have it; numbers that are drawn fall into bins of equal count."""
    having = np.array([place for place, trial in enumerate(trials) if name in trial], np.int64)
    given = [trials[place][name] for place in having.tolist()]
    parts = _bins(given) if len(set(given)) > _MOST_VALUES else _same(given)
    better = np.min if FIGURES[by].lower_is_better else np.max
    values = (
        ValueEffect(
            title, number, int(which.sum()), float(value[having[which]].mean()), float(better(value[having[which]])),
            float(switches[having[which]].mean()),
        )
        for title, number, which in parts
    )  # fmt: skip
    return SettingEffect(name, tuple(values))


def _same(given: Sequence[Value]) -> Iterable[tuple[str, float | None, Bools]]:
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in given)
    every = dict.fromkeys(given)
    for one in sorted(every, key=lambda one: float(one or 0)) if numbers else every:
        which = np.array([other is one or other == one for other in given])
        yield shown_value(one), float(one or 0) if numbers else None, which


def _bins(given: Sequence[Value]) -> Iterable[tuple[str, float | None, Bools]]:
    known = np.array([float(one) if isinstance(one, int | float) else np.nan for one in given])
    edges = np.quantile(known[np.isfinite(known)], np.linspace(0, 1, _BINS + 1))
    place = np.clip(np.searchsorted(edges, known, side="right") - 1, 0, _BINS - 1)
    for number in range(_BINS):
        which = (place == number) & np.isfinite(known)
        if which.any():
            own = known[which]
            yield f"{own.min():g} – {own.max():g}", float(own.mean()), which
