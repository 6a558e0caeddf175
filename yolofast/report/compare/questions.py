"""Answers to what people ask of settings, from the runs at hand and of these alone.

A question is one setting in which two kinds of run differ, with what usually goes with it. Where anything else that
matters for learning differs too, the runs say nothing about it. Each kind is compared with the first one; an answer
needs repeated runs of both, except for the pace of workers, which is as measured.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from yolofast.report.compare import words
from yolofast.report.compare.comparability import EVALUATED_SIZES, accuracies_differ, assigner_of, hours_differ
from yolofast.report.compare.compared_run import MAP, ComparedRun
from yolofast.report.compare.conclusion import compared_kinds, unfinished
from yolofast.report.compare.differences import ENVIRONMENT, NAMES, PACE, SEED, kind_of, same
from yolofast.report.compare.figures import SURE, Spread, Test, images_per_second, spread_of, wait_for_data
from yolofast.report.compare.kinds import Group
from yolofast.report.compare.uses import UseAdvice

_CLOSE = 0.1
"""Of the hours: as much is the same cost. Of the pace of workers: as much is not worth more of them."""
_SAID_ELSEWHERE = frozenset(("recipe_values", "hyp", "recipe"))
"""Where values come from; what they are, the run's files say apart."""


class Question(NamedTuple):
    of: str
    key: str
    """The setting that is asked about."""
    beside: frozenset[str]
    """What may differ with it."""
    value: Callable[[ComparedRun], str]


def _size(run: ComparedRun) -> str:
    return f"{words.setting(run.settings.get('img_size'))} pixels"


def _batch(run: ComparedRun) -> str:
    return f"batch {words.number(run.batch, 0)}"


QUESTIONS = (
    Question("who assigns boxes", "assigner", frozenset(("epochs",)), assigner_of),
    Question("the size of images", "img_size", frozenset(("input_size",)), _size),
    Question(
        "the batch", "batch_size", frozenset(("auto_lr", "lr0", "nbs", "basic_lr_per_img", "warmup_epochs")), _batch
    ),
)


def answers(groups: Sequence[Group]) -> list[UseAdvice]:
    first = groups[0]
    asked = [(other, one) for other in groups[1:] if (one := _question(first, other)) is not None]
    found = compared_kinds([first, *(other for other, _ in asked)], MAP, _obstacle)
    answered = [_answer(first, other, one, found[other.name]) for other, one in asked if other.name in found]
    return [*answered, *_workers(groups)]


def _question(first: Group, other: Group) -> Question | None:
    changed = _changed(first.runs[0], other.runs[0]) - PACE
    return next((one for one in QUESTIONS if one.key in changed <= {one.key, *one.beside}), None)


def _changed(one: ComparedRun, other: ComparedRun) -> set[str]:
    """Settings that differ, but for names and seeds; versions count as settings."""
    left_out = NAMES | {SEED} | (_SAID_ELSEWHERE if one.hyp and other.hyp else frozenset())
    keys = (one.settings.keys() | other.settings.keys()) - left_out
    versions = {key for key in one.environment if kind_of(key, ENVIRONMENT) == "versions"} & other.environment.keys()
    changed = {key for key in keys if not same(one.settings.get(key), other.settings.get(key))}
    return changed | {key for key in versions if not same(one.environment[key], other.environment[key])}


def _obstacle(first: Group, other: Group) -> str:
    """As between any two, but each may be evaluated at its own size: that is what is asked."""
    reasons = [one for one in accuracies_differ([*first.runs, *other.runs]) if one != EVALUATED_SIZES]
    return other.copy_of or ", ".join(reasons) or unfinished(first, other)


def _answer(first: Group, other: Group, question: Question, found: tuple[Test, float]) -> UseAdvice:
    test, p = found
    values = [spread_of(run.at_best(MAP) for run in group.runs) for group in (first, other)]
    ratio = _cost(first, other)
    figures = (
        f"{_seeds(other, first)}: {MAP} {words.spread(values[1], 4)} against {words.spread(values[0], 4)}, "
        f"{test.difference:+.4f}, with 95 % between {test.low:+.4f} and {test.high:+.4f}{_of_cost(other, ratio)}"
    )
    if p <= SURE:
        better = other if test.difference > 0 else first
        return UseAdvice(_named(question, first, other), better.name, figures)
    quicker = None if math.isnan(ratio) or abs(ratio - 1) < _CLOSE else other if ratio < 1 else first
    take, why = ("either", "") if quicker is None else (quicker.name, ", and it takes less time")
    return UseAdvice(_named(question, first, other), take, f"no difference beyond chance{why}. {figures}")


def _named(question: Question, first: Group, other: Group) -> str:
    values = [question.value(group.runs[0]) for group in (first, other)]
    epochs = [group.runs[0].number("epochs") for group in (first, other)]
    if epochs[0] != epochs[1]:
        values = [f"{value} for {words.number(count, 0)} epochs" for value, count in zip(values, epochs, strict=True)]
    return f"{question.of}, {values[0]} or {values[1]}"


def _seeds(one: Group, other: Group) -> str:
    return f"these {len(one)} and {len(other)} runs"


def _cost(first: Group, other: Group) -> float:
    """Hours of the other one for each of the first; nan where they cannot be compared."""
    hours = [spread_of(run.hours for run in group.runs) for group in (first, other)]
    if hours_differ([*first.runs, *other.runs]) or any(value is None or value.mean <= 0 for value in hours):
        return math.nan
    one, two = hours
    assert one is not None and two is not None
    return two.mean / one.mean


def _of_cost(other: Group, ratio: float) -> str:
    if math.isnan(ratio):
        return "; what they cost cannot be compared"
    about = "at equal cost, " if abs(ratio - 1) < _CLOSE else ""
    return f"; {about}{other.name} takes {ratio:.2f}× the hours"


def _workers(groups: Sequence[Group]) -> Iterator[UseAdvice]:
    """As many as are needed to be about as quick as the quickest, of those that differ in nothing else."""
    first = groups[0].runs[0]
    alike = [group for group in groups if _changed(first, group.runs[0]) <= {"workers"}]
    paces = {group.name: pace for group in alike if (pace := spread_of(map(images_per_second, group.runs))) is not None}
    measured = [group for group in alike if group.name in paces and group.runs[0].number("workers") is not None]
    if len(measured) < 2 or hours_differ([run for group in measured for run in group.runs]):
        return
    best = max(paces[group.name].mean for group in measured)
    enough = [group for group in measured if paces[group.name].mean >= (1 - _CLOSE) * best]
    take = min(enough, key=lambda group: group.runs[0].number("workers") or 0)
    why = "; ".join(_pace(group, paces[group.name]) for group in measured)
    where = f"workers at {_batch(first)} and {_size(first)}"
    yield UseAdvice(where, take.name, f"{why}. The fewest that come within {_CLOSE:.0%} of the quickest")


def _pace(group: Group, pace: Spread) -> str:
    wait = spread_of(map(wait_for_data, group.runs))
    waited = "" if wait is None else f", {wait.mean:.0f} % of the time without data"
    return f"{words.number(group.runs[0].number('workers'), 0)}: {words.spread(pace, 0)} img/s{waited}"
