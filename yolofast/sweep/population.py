"""A population of runs (PBT, arXiv 1711.09846): at each rung the worst become copies of the best, with other values.

All runs pause at a rung and wait for one another. The copies continue from the weights of the runs they come from; what
they replace stays as it paused. Who is copied is drawn from seed and rung, so that a sweep that was killed in between
makes the same copies.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from yolofast.config.hyp import HYP_KEYS
from yolofast.sweep.draws import DrawnRange, rounded
from yolofast.sweep.experiment import Experiment
from yolofast.sweep.folder import SweepFolder, TrialProgress
from yolofast.sweep.trials import Trial, allowed, checked, new_trial, typed
from yolofast.train.fork import fork

_FACTORS = 0.8, 1.2
_DRAWN_ANEW = 0.25
"""As published: values are multiplied by one of two factors, or drawn again with that probability."""
_TRIES = 50
"""Values that constraints forbid, before those of the parent are kept."""


def alive(trials: Sequence[Trial]) -> list[Trial]:
    """Those that no other has replaced, and that did not fail."""
    replaced = {one.replaces for one in trials}
    return [one for one in trials if one.name not in replaced and not one.problem]


def is_renewed(trials: Sequence[Trial], rung: int) -> bool:
    """Whether the copies of a rung have been made, or there is nobody to be copied."""
    return any(one.born == rung for one in trials) or len(alive(trials)) < 2


def renewed(sweep: SweepFolder, rung: int, progress: Callable[[Trial], TrialProgress]) -> list[Trial]:
    """The copies of a rung that all members have reached, with their folders; the sweep does not know them yet."""
    experiment, members = sweep.experiment, alive(sweep.trials)
    order = sorted(members, key=lambda one: -_worth(progress(one), rung))
    count = min(max(int(experiment.share * len(order)), 1), len(order) // 2)
    chance, copies = np.random.default_rng((experiment.seed, rung)), list[Trial]()
    for worst in order[-count:]:
        parent = order[int(chance.integers(count))]
        copies.append(_copy(experiment, parent, worst, rung, len(sweep.trials) + len(copies), chance))
    for copy in checked(copies):
        parent = next(one for one in members if one.name == copy.parent)
        copy.inherited = 3600 * progress(parent).hours
        config, _ = typed(copy.settings)
        fork(sweep.run(parent), sweep.run(copy), copy.varied, config.recipe_values, rung)
    return copies


def _copy(
    experiment: Experiment, parent: Trial, worst: Trial, rung: int, number: int, chance: np.random.Generator
) -> Trial:
    drawn = (explored(parent.varied, experiment.search, chance) for _ in range(_TRIES))
    varied = next((one for one in drawn if allowed(experiment, one)), parent.varied)
    copy = new_trial(experiment, number, varied, {**parent.settings, **varied})
    copy.parent, copy.replaces, copy.born = parent.name, worst.name, rung
    return copy


def explored(
    values: Mapping[str, float], ranges: Mapping[str, DrawnRange], chance: np.random.Generator
) -> dict[str, float]:
    """Other values near these, within their ranges."""
    found = {}
    for name, one in ranges.items():
        drawn, anew, factor = one.draw(chance), chance.random() < _DRAWN_ANEW, _FACTORS[int(chance.integers(2))]
        value = drawn
        if not anew:
            value = values[name] if one.kind == "choice" else rounded(_within(one, values[name] * factor))
        value = round(value) if one.kind == "int" else value
        found[name] = value if HYP_KEYS[name].suits(value) else values[name]
    return found


def _within(one: DrawnRange, value: float) -> float:
    low, high = one.values
    return float(min(max(value, low), high))


def _worth(progress: TrialProgress, rung: int) -> float:
    """As good as it is now: an earlier best may be its parent's. Of a time to some accuracy, that accuracy."""
    known = [value for value in progress.curve[:rung] if math.isfinite(value)]
    return -math.inf if not known else -known[-1] if progress.lower_is_better and not progress.accuracy else known[-1]
