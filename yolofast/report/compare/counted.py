"""Which runs of a kind count. A copy is no second run, and a run that is not over does not show where its kind ends.

What is left out stays in the lists of runs and settings; means, spreads, curves and tests are without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from yolofast.report.compare.groups import Group
from yolofast.report.compare.remark import INCOMPLETE, NOTE, Remark
from yolofast.report.compare.run import Run
from yolofast.runs.layout import WAIT

_OF_THE_MACHINE = ("memory", WAIT.name)
"""Columns that a repeat with the same seed may have otherwise."""


@dataclass(frozen=True)
class Counted:
    groups: tuple[Group, ...]
    left_out: dict[str, str]
    """Run -> why."""
    remarks: tuple[Remark, ...]


def count_once(groups: Sequence[Group]) -> Counted:
    """A kind that has nothing but copies of another's runs stays, marked as such."""
    kept: list[Group] = []
    left_out: dict[str, str] = {}
    remarks: list[Remark] = []
    for group in groups:
        over, early = _finished(group)
        own, copies = _without_copies(over, kept)
        left_out |= {run.name: "not finished" for run in early}
        left_out |= {run.name: f"a copy of {first.name}" for run, first in copies if own or run is not copies[0][0]}
        remarks += [_not_over(run, group) for run in early]
        remarks += [_copied(run, first) for run, first in copies]
        if own:
            kept.append(replace(group, runs=tuple(own)))
        else:
            run, first = copies[0]
            kept.append(replace(group, runs=(run,), copy_of=_kind_of(first, kept)))
    return Counted(tuple(kept), left_out, tuple(remarks))


def _finished(group: Group) -> tuple[list[Run], list[Run]]:
    """And those that are not. Where none is finished, those that came furthest stand for their kind."""
    over = [run for run in group.runs if not run.unfinished]
    furthest = max(int(run.epoch[-1]) for run in group.runs)
    over = over or [run for run in group.runs if int(run.epoch[-1]) == furthest]
    names = {run.name for run in over}
    return over, [run for run in group.runs if run.name not in names]


def _kind_of(run: Run, groups: Sequence[Group]) -> str:
    return next(group.name for group in groups if any(one is run for one in group.runs))


def _without_copies(runs: Sequence[Run], before: Sequence[Group]) -> tuple[list[Run], list[tuple[Run, Run]]]:
    """Runs of their own; copies, each with what it is a copy of, in its kind or in one `before`."""
    own: list[Run] = []
    copies: list[tuple[Run, Run]] = []
    for run in runs:
        same = [one for one in own if learned_the_same(one, run)]
        same += [one for group in before for one in group.runs if is_copy(one, run)]
        if same:
            copies.append((run, same[0]))
        else:
            own.append(run)
    return own, copies


def learned_the_same(one: Run, other: Run) -> bool:
    """To the last digit: a copy, or a repeat with the same seed. Either way it says nothing about chance."""
    names = one.columns.keys() - _OF_THE_MACHINE
    if names != other.columns.keys() - _OF_THE_MACHINE or not np.array_equal(one.epoch, other.epoch):
        return False
    return all(np.array_equal(one.columns[key], other.columns[key], equal_nan=True) for key in names)


def is_copy(one: Run, other: Run) -> bool:
    """Time and memory too. Kinds may well learn the same at another pace, and that is worth comparing."""
    times = one.timing.total, other.timing.total
    if None not in times and times[0] != times[1]:
        return False
    machine = ((one.column(key), other.column(key)) for key in _OF_THE_MACHINE)
    return learned_the_same(one, other) and all(np.array_equal(*pair, equal_nan=True) for pair in machine)


def _not_over(run: Run, group: Group) -> Remark:
    return Remark(INCOMPLETE, f"{run.name}: is not finished, so it is left out of the means and tests of {group.name}.")


def _copied(run: Run, first: Run) -> Remark:
    text = f"{run.name} has the same results as {first.name} to the last digit: a copy, or a repeat with the same seed"
    return Remark(NOTE, f"{text}. It does not count as a run of its own.")
