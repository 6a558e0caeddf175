"""Runs of one kind: settings that differ in the seed and in names alone, or what the user says is one kind.

Equal settings are not enough: versions and hardware have to be the same as well, or two versions of the code would be
averaged. Where no file says the seed (YOLOv7's do not), nothing is grouped by itself. Copies and unfinished runs stay
in the lists of runs and settings, but not in means, spreads, curves and tests.
"""

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import takewhile

import numpy as np

from yolofast.errors import UserError
from yolofast.report.compare.compared_run import MAP, MAP50, ULTRALYTICS, YOLOV7, ComparedRun
from yolofast.report.compare.consistency import INCOMPLETE, NOTE, Remark
from yolofast.report.compare.differences import NAMES, SEED, same
from yolofast.report.logs.history import Floats, Ints
from yolofast.runs.layout import WAIT

_LOW = 0.25
"""Of the highest rate. Cosine and linear schedules end at a tenth or a hundredth; a constant one stays at 1."""
_NO_GROUPS = "none"
_ENVIRONMENT = ("yolofast", "torch", "gpu", "gpus", "cuda")
_OF_THE_MACHINE = ("memory", WAIT.name)
"""Columns that a repeat with the same seed may have otherwise."""


@dataclass(frozen=True)
class Group:
    name: str
    runs: tuple[ComparedRun, ...]
    copy_of: str = ""
    """The kind whose results these are as well."""

    def __len__(self) -> int:
        return len(self.runs)


@dataclass(frozen=True)
class KindCurves:
    """Means over the runs of a kind at the epochs all of them have; standard deviations where there are several."""

    name: str
    epoch: Ints
    mean: Mapping[str, Floats]
    std: Mapping[str, Floats]
    seconds: Floats | None
    best: Mapping[str, Floats]
    """Accuracies of the best weights so far, the mean over the runs: the last are those of the summary."""
    schedule_over: bool = False

    def column(self, name: str) -> Floats:
        return self.mean.get(name, np.full(len(self.epoch), np.nan))


def group_runs(runs: Sequence[ComparedRun], patterns: Sequence[str] = ()) -> list[Group]:
    """`patterns`: `[LABEL=]PATTERN` of names, or `none`; without any, by the settings."""
    if list(patterns) == [_NO_GROUPS]:
        return [Group(run.name, (run,)) for run in runs]
    members = _by_patterns(runs, patterns) if patterns else _by_settings(runs)
    names = _distinct([label or _common_name(kind) for label, kind in members])
    return [Group(name, tuple(kind)) for name, (_, kind) in zip(names, members, strict=True)]


def curves_of(group: Group) -> KindCurves:
    epoch = reduce(np.intersect1d, (run.epoch for run in group.runs))
    places = [(run, np.searchsorted(run.epoch, epoch)) for run in group.runs]
    names = [name for name in group.runs[0].columns if all(name in run.columns for run in group.runs)]
    stacked = {name: np.stack([run.columns[name][place] for run, place in places]) for name in names}
    clocks = [run.timing.seconds[place] for run, place in places if run.timing.seconds is not None]
    return KindCurves(
        group.name,
        epoch,
        {name: values.mean(axis=0) for name, values in stacked.items()},
        {name: values.std(axis=0, ddof=1) for name, values in stacked.items()} if len(group) > 1 else {},
        np.mean(clocks, axis=0) if len(clocks) == len(group) else None,
        {name: np.mean([run.best_so_far(name)[place] for run, place in places], axis=0) for name in (MAP50, MAP)},
        all(map(schedule_is_over, group.runs)),
    )


def schedule_is_over(run: ComparedRun) -> bool:
    rates = run.column("lr")
    rates = rates[np.isfinite(rates)]
    if len(rates):
        return bool(rates[-1] <= _LOW * rates.max())
    # They write no rate, or not always; theirs always falls to the end.
    return run.format in (YOLOV7, ULTRALYTICS) and not run.unfinished


def _by_settings(runs: Sequence[ComparedRun]) -> list[tuple[str, list[ComparedRun]]]:
    kinds: list[list[ComparedRun]] = []
    for run in runs:
        kind = next((kind for kind in kinds if _one_kind(kind[0], run)), None)
        if kind is None:
            kinds.append(kind := [])
        kind.append(run)
    return [("", kind) for kind in kinds]


def _one_kind(one: ComparedRun, other: ComparedRun) -> bool:
    if one.format != other.format or SEED not in one.settings or SEED not in other.settings:
        return False
    learning = (one.settings.keys() | other.settings.keys()) - NAMES - {SEED}
    return all(same(one.environment.get(key), other.environment.get(key)) for key in _ENVIRONMENT) and all(
        same(one.settings.get(key), other.settings.get(key)) for key in learning
    )


def _by_patterns(runs: Sequence[ComparedRun], patterns: Sequence[str]) -> list[tuple[str, list[ComparedRun]]]:
    """The first pattern that fits a name takes it; runs that fit none stay alone."""
    found: dict[str, list[ComparedRun]] = {}
    for run in runs:
        fits = (text for text in patterns if fnmatch.fnmatchcase(run.name, text.partition("=")[2] or text))
        found.setdefault(next(fits, f"={run.name}"), []).append(run)
    unused = [text for text in patterns if text not in found]
    if unused:
        known = ", ".join(run.name for run in runs)
        raise UserError(f"--group {unused[0]} fits no run", fix=f"the names are {known}; a * stands for anything")
    return [(text.partition("=")[0] if "=" in text else "", kind) for text, kind in found.items()]


def _common_name(kind: Sequence[ComparedRun]) -> str:
    if len(kind) == 1:
        return kind[0].name
    letters = zip(*(run.name for run in kind), strict=False)
    common = "".join(same_letter[0] for same_letter in takewhile(lambda column: len(set(column)) == 1, letters))
    return re.sub(r"[\s_.-]*(seed|s)?[\s_.-]*$", "", common) or kind[0].name


def _distinct(names: list[str]) -> list[str]:
    return [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})" for i, name in enumerate(names)
    ]


@dataclass(frozen=True)
class Counted:
    groups: tuple[Group, ...]
    left_out: dict[str, str]
    """Run -> why."""
    remarks: tuple[Remark, ...]


def count_once(groups: Sequence[Group]) -> Counted:
    """A kind that has nothing but copies of another's runs stays, marked as such."""
    counted: list[Group] = []
    left_out: dict[str, str] = {}
    remarks: list[Remark] = []
    for group in groups:
        over, early = _finished(group)
        own, copies = _without_copies(over, counted)
        left_out |= {run.name: "not finished" for run in early}
        left_out |= {run.name: f"a copy of {first.name}" for run, first in copies if own or run is not copies[0][0]}
        why = f"is not finished, so it is left out of the means and tests of {group.name}."
        remarks += [Remark(INCOMPLETE, f"{run.name}: {why}") for run in early]
        for run, first in copies:
            text = f"{run.name} has the same results as {first.name} to the last digit"
            why = "a copy, or a repeat with the same seed. It does not count as a run of its own."
            remarks.append(Remark(NOTE, f"{text}: {why}"))
        if own:
            counted.append(replace(group, runs=tuple(own)))
        else:
            run, first = copies[0]
            original = next(kind.name for kind in counted if any(one is first for one in kind.runs))
            counted.append(replace(group, runs=(run,), copy_of=original))
    return Counted(tuple(counted), left_out, tuple(remarks))


def _finished(group: Group) -> tuple[list[ComparedRun], list[ComparedRun]]:
    """And those that are not. Where none is finished, those that came furthest stand for their kind."""
    over = [run for run in group.runs if not run.unfinished]
    furthest = max(int(run.epoch[-1]) for run in group.runs)
    over = over or [run for run in group.runs if int(run.epoch[-1]) == furthest]
    names = {run.name for run in over}
    return over, [run for run in group.runs if run.name not in names]


def _without_copies(
    runs: Sequence[ComparedRun], before: Sequence[Group]
) -> tuple[list[ComparedRun], list[tuple[ComparedRun, ComparedRun]]]:
    """Runs of their own; copies, each with what it is a copy of, in its kind or in one `before`."""
    own: list[ComparedRun] = []
    copies: list[tuple[ComparedRun, ComparedRun]] = []
    for run in runs:
        originals = [one for one in own if learned_the_same(one, run)]
        originals += [one for group in before for one in group.runs if _is_copy(one, run)]
        if originals:
            copies.append((run, originals[0]))
        else:
            own.append(run)
    return own, copies


def learned_the_same(one: ComparedRun, other: ComparedRun) -> bool:
    """To the last digit: a copy, or a repeat with the same seed. Either way it says nothing about chance."""
    names = one.columns.keys() - _OF_THE_MACHINE
    if names != other.columns.keys() - _OF_THE_MACHINE or not np.array_equal(one.epoch, other.epoch):
        return False
    return all(np.array_equal(one.columns[key], other.columns[key], equal_nan=True) for key in names)


def _is_copy(one: ComparedRun, other: ComparedRun) -> bool:
    """Time and memory too. Kinds may well learn the same at another pace, and that is worth comparing."""
    times = one.timing.total, other.timing.total
    if None not in times and times[0] != times[1]:
        return False
    machine = ((one.column(key), other.column(key)) for key in _OF_THE_MACHINE)
    return learned_the_same(one, other) and all(np.array_equal(*pair, equal_nan=True) for pair in machine)
