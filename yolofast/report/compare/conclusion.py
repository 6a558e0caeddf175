"""What may be concluded from a comparison: a test where runs were repeated, a caution where they were not."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from yolofast.report.compare.comparability import TRAIN_LOSS, VAL_LOSS, accuracies, accuracies_differ, without_winner
from yolofast.report.compare.compared_run import MAP, MAP50, MOTION
from yolofast.report.compare.figures import HOURS, SURE, Spread, Test, holm, runs_needed, spread_of, welch
from yolofast.report.compare.kinds import Group, learned_the_same
from yolofast.report.diagnose.statistics import noise_between

BETTER, WORSE, SAME, CAUTION = "better", "worse", "no difference beyond chance", "caution"
IDENTICAL = "the same"


def no_one_wins(groups: Sequence[Group]) -> dict[str, str]:
    """Rows of the summary -> why their values decide nothing."""
    reasons = without_winner([run for group in groups for run in group.runs])
    if any(unfinished(groups[0], other) for other in groups[1:]):
        reasons = dict.fromkeys((*accuracies(), TRAIN_LOSS, VAL_LOSS, HOURS), "not finished") | reasons
    return reasons


def obstacle(first: Group, other: Group) -> str:
    """Empty where nothing stands between them."""
    if other.copy_of == first.name:
        return f"the results of {other.name} are a copy of those of {first.name}. Train it with settings of its own"
    if reasons := accuracies_differ([*first.runs, *other.runs]):
        advice = "Evaluate both on the same images in the same way: `yolofast val --weights …/best.pt`"
        return f"{other.name} and {first.name} were evaluated differently ({', '.join(reasons)}). {advice}"
    return unfinished(first, other)


def unfinished(first: Group, other: Group) -> str:
    """Two that are not finished, but stopped at the same place of the same plan, are equally far."""
    early = [group for group in (first, other) if group.runs[0].unfinished]
    if not early or len({(int(run.epoch[-1]), run.number("epochs")) for run in (*first.runs, *other.runs)}) == 1:
        return ""
    names = " and ".join(group.name for group in early)
    return f"{names} {'is' if len(early) == 1 else 'are'} not finished. Let the training come to its end (`--resume`)"


@dataclass(frozen=True)
class Conclusion:
    """About `group` beside the first kind of run."""

    group: str
    kind: str
    text: str
    measure: str = MAP
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    """As the interval from `low` to `high`, adjusted for the number of comparisons."""


def conclude(groups: Sequence[Group], last: int) -> list[Conclusion]:
    """By mAP50-95, or mAP50 where that is all there is; motion models by their first metric."""
    measure = next((one for one in (MAP, MAP50, *MOTION) if any(_values(group, one) for group in groups)), MAP50)
    tests = compared_kinds(groups, measure, obstacle)
    return [_conclusion(groups[0], other, measure, tests.get(other.name), len(tests), last) for other in groups[1:]]


def within_chance(groups: Sequence[Group], measure: str) -> set[str]:
    """Kinds that a test does not tell from the first."""
    return {name for name, (_, p) in compared_kinds(groups, measure, obstacle).items() if p > SURE}


def compared_kinds(
    groups: Sequence[Group], measure: str, stands_between: Callable[[Group, Group], str]
) -> dict[str, tuple[Test, float]]:
    """Of those that can be judged and were repeated. p is adjusted for their number, and the interval widened as much:
    it excludes 0 where p decides, and nowhere else."""
    first, one = groups[0], _values(groups[0], measure)
    others = {group.name: _values(group, measure) for group in groups[1:] if not stands_between(first, group)}
    known = {name: test for name, two in others.items() if (test := welch(one, two)) is not None}
    raised = holm([test.p for test in known.values()])
    adjusted = {}
    for (name, test), p in zip(known.items(), raised, strict=True):
        widened = welch(one, others[name], SURE * test.p / p) if p > test.p else test
        assert widened is not None
        adjusted[name] = (widened, p)
    return adjusted


def _conclusion(
    first: Group, other: Group, measure: str, test: tuple[Test, float] | None, tests: int, last: int
) -> Conclusion:
    one, two = _values(first, measure), _values(other, measure)
    if one is None or two is None:
        missing = first.name if one is None else other.name
        return Conclusion(other.name, CAUTION, f"nothing can be said: no accuracy of {missing} is known", measure)
    if why := obstacle(first, other):
        return Conclusion(other.name, CAUTION, f"nothing can be concluded in {measure}: {why}", measure)
    # Run by run, in whatever order they were given.
    if len(first) == len(other) and all(any(learned_the_same(a, b) for a in first.runs) for b in other.runs):
        text = f"{other.name} learned the same as {first.name}, to the last digit of every loss and accuracy"
        return Conclusion(other.name, IDENTICAL, f"{text}; what differs between them may change the pace", measure, 0.0)
    if test is None:
        return _caution(first, other, one, two, measure, last)
    return _tested(first.name, other.name, one, two, measure, *test, tests)


def _tested(
    first: str, other: str, one: Spread, two: Spread, measure: str, test: Test, p: float, tests: int
) -> Conclusion:
    adjusted = f", interval and p adjusted for {tests} comparisons" if tests > 1 else ""
    figures = (
        f"{two.mean:.4f} ± {two.std:.4f} ({two.n} runs) against {one.mean:.4f} ± {one.std:.4f} ({one.n} runs): "
        f"{test.difference:+.4f}, with 95 % between {test.low:+.4f} and {test.high:+.4f}; Welch's t-test, "
        f"p = {p:.2g}{adjusted}"
    )
    if p <= SURE:
        kind = BETTER if test.difference > 0 else WORSE
        text = f"{other} is {kind} than {first} in {measure}: {figures}"
    else:
        kind, needed = SAME, runs_needed(test.difference, one, two)
        needed = max(needed, 1 + min(one.n, two.n)) if needed else 0  # those there are did not do
        more = f". To see a difference of this size, about {needed:,} runs of each would be needed" if needed else ""
        text = f"{other} and {first} do not differ beyond chance in {measure}: {figures}{more}"
    return Conclusion(other, kind, text, measure, test.difference, test.low, test.high, p)


def _caution(first: Group, other: Group, one: Spread, two: Spread, measure: str, last: int) -> Conclusion:
    gap = two.mean - one.mean
    share = f" ({gap / one.mean:+.1%})" if one.mean else ""
    head = f"{other.name} has {gap:+.4f}{share} {measure} against {first.name}"
    if one.n > 1 and two.n > 1:
        return Conclusion(other.name, CAUTION, f"{head}; repeated runs gave the very same numbers", measure, gap)
    if one.n == two.n == 1:
        curves = [group.runs[0].column(measure) for group in (first, other)]
        noise = max(noise_between(values[np.isfinite(values)][-last:]) for values in curves)
        jumps = f"Near the end it moves by {noise:.4f} from epoch to epoch; seeds often move it by more. "
        text = f"{head}, from one run of each: seed, order and rounding move it too. {jumps if noise else ''}"
    else:
        text = f"{head}. {_single_among_repeated(one, two)}"
    advice = "Repeat each with three seeds before concluding"
    return Conclusion(other.name, CAUTION, f"{text}{advice}", measure, gap)


def _single_among_repeated(one: Spread, two: Spread) -> str:
    """How usual the single run would be among those of the other kind."""
    many, single = (one, two) if one.n > 1 else (two, one)
    if many.std == 0:
        return ""
    t = abs(single.mean - many.mean) / (many.std * math.sqrt(1 + 1 / many.n))
    chance = f"as far off with p = {2 * float(scipy.special.stdtr(many.n - 1, -t)):.2g}"
    return f"One of the two was run once; among the {many.n} runs of the other it would be {chance}. "


def _values(group: Group, measure: str) -> Spread | None:
    return spread_of(run.at_best(measure) for run in group.runs)
