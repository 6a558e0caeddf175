"""Where to try next, by Optuna's TPE (arXiv 1907.10902): of many draws the one that is likeliest among the good.

The study is made anew from the trials of the sweep each time. So nothing is to be kept beside them, and a sweep that
was killed continues with what it knows.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from yolofast.extensions import needed
from yolofast.sweep.draws import DrawnRange, rounded

_TRIES, _DRAWS = 20, 1000
"""Suggestions that constraints forbid or that were tried, before values are drawn; and draws, before there are none."""
Known = tuple[Mapping[str, Any], float | None, int, bool]
"""What a trial varies, its worth (more is better; None: not known yet; -inf: it failed), its epochs, and whether it is
complete. All that were ever begun: the same values with the same seed would end in the same weights."""


def suggested(
    ranges: Mapping[str, DrawnRange], known: Sequence[Known], seed: int, allowed: Callable[[Mapping[str, Any]], bool]
) -> dict[str, Any] | None:
    """Values of a next trial, which no other has; None if constraints and the others leave none."""
    optuna = needed("optuna", "optuna", "method tpe")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    spaces = {name: _space(optuna, one) for name, one in ranges.items()}
    # Trials that still run count as bad ones, or those side by side would all try the same.
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for varied, worth, epochs, is_complete in known:
        state = optuna.trial.TrialState.COMPLETE if is_complete else optuna.trial.TrialState.PRUNED
        state = optuna.trial.TrialState.RUNNING if worth is None else state
        if failed := worth == -math.inf:
            state = optuna.trial.TrialState.FAIL
        trial = optuna.trial.create_trial(
            state=state, params={name: _given(ranges[name], varied[name]) for name in ranges}, distributions=spaces,
            value=worth if is_complete and not failed else None,
            intermediate_values={} if worth is None or failed else {epochs: worth},
        )  # fmt: skip
        study.add_trial(trial)
    tried = [varied for varied, *_ in known]
    for _ in range(_TRIES):
        trial = study.ask(spaces)
        varied = {name: _value(ranges[name], trial.params[name]) for name in ranges}
        if varied not in tried and allowed(varied):
            return varied
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    chance = np.random.default_rng(seed)
    drawn = ({name: one.draw(chance) for name, one in ranges.items()} for _ in range(_DRAWS))
    return next((one for one in drawn if one not in tried and allowed(one)), None)


def _space(optuna: Any, one: DrawnRange) -> Any:
    if one.kind == "choice":  # by place: Optuna takes no lists as values
        return optuna.distributions.CategoricalDistribution(tuple(range(len(one.values))))
    if one.kind == "int":
        return optuna.distributions.IntDistribution(*one.values)
    return optuna.distributions.FloatDistribution(*map(float, one.values), log=one.kind == "log")


def _given(one: DrawnRange, value: Any) -> Any:
    return one.values.index(value) if one.kind == "choice" else value


def _value(one: DrawnRange, value: Any) -> Any:
    if one.kind == "choice":
        return one.values[value]
    low, high = one.values
    return value if one.kind == "int" else min(max(rounded(value), low), high)
