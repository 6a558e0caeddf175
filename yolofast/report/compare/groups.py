"""Runs of one kind. Settings that differ in the seed and in names alone are one kind; so is what the user says is one.

Equal settings are not enough: versions and hardware have to be the same as well, or two versions of the code would be
averaged. Where no file says the seed (YOLOv7's do not), nothing is grouped by itself.
"""

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from yolofast.errors import UserError
from yolofast.report.compare.differences import NAMES, SEED, same
from yolofast.report.compare.run import MAP, MAP50, Run
from yolofast.report.compare.schedule import schedule_is_over
from yolofast.report.history import Floats, Ints

NONE = "none"
_MACHINE = ("yolofast", "torch", "gpu", "gpus", "cuda")


@dataclass(frozen=True)
class Group:
    name: str
    runs: tuple[Run, ...]
    copy_of: str = ""
    """The kind whose results these are as well."""

    def __len__(self) -> int:
        return len(self.runs)


@dataclass(frozen=True)
class Curves:
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


def group_runs(runs: Sequence[Run], patterns: Sequence[str] = ()) -> list[Group]:
    """`patterns`: `[LABEL=]PATTERN` of names, or `none`; without any, by the settings."""
    if list(patterns) == [NONE]:
        return [Group(run.name, (run,)) for run in runs]
    members = _by_patterns(runs, patterns) if patterns else _by_settings(runs)
    names = _distinct([label or _common_name(kind) for label, kind in members])
    return [Group(name, tuple(kind)) for name, (_, kind) in zip(names, members, strict=True)]


def curves_of(group: Group) -> Curves:
    epoch = group.runs[0].epoch
    for run in group.runs[1:]:
        epoch = np.intersect1d(epoch, run.epoch)
    places = [np.searchsorted(run.epoch, epoch) for run in group.runs]
    names = [name for name in group.runs[0].columns if all(name in run.columns for run in group.runs)]
    stacked = {
        name: np.stack([run.columns[name][place] for run, place in zip(group.runs, places, strict=True)])
        for name in names
    }
    clocks = [
        run.timing.seconds[place]
        for run, place in zip(group.runs, places, strict=True)
        if run.timing.seconds is not None
    ]
    return Curves(
        group.name,
        epoch,
        {name: values.mean(axis=0) for name, values in stacked.items()},
        {name: values.std(axis=0, ddof=1) for name, values in stacked.items()} if len(group) > 1 else {},
        np.mean(clocks, axis=0) if len(clocks) == len(group) else None,
        {
            name: np.mean([run.best_so_far(name)[place] for run, place in zip(group.runs, places, strict=True)], axis=0)
            for name in (MAP50, MAP)
        },
        all(map(schedule_is_over, group.runs)),
    )


def _by_settings(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    kinds: list[list[Run]] = []
    for run in runs:
        for kind in kinds:
            if _one_kind(kind[0], run):
                kind.append(run)
                break
        else:
            kinds.append([run])
    return [("", kind) for kind in kinds]


def _one_kind(one: Run, other: Run) -> bool:
    if one.format != other.format or SEED not in one.settings or SEED not in other.settings:
        return False
    if not all(same(one.environment.get(key), other.environment.get(key)) for key in _MACHINE):
        return False
    return _alike(one.settings, other.settings)


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    keys = (one.keys() | other.keys()) - NAMES - {SEED}
    return all(same(one.get(key), other.get(key)) for key in keys)


def _by_patterns(runs: Sequence[Run], patterns: Sequence[str]) -> list[tuple[str, list[Run]]]:
    """The first pattern that fits a name takes it; runs that fit none stay alone."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        fits = (text for text in patterns if fnmatch.fnmatchcase(run.name, text.partition("=")[2] or text))
        found.setdefault(next(fits, f"={run.name}"), []).append(run)
    unused = [text for text in patterns if text not in found]
    if unused:
        known = ", ".join(run.name for run in runs)
        raise UserError(f"--group {unused[0]} fits no run", fix=f"the names are {known}; a * stands for anything")
    return [(text.partition("=")[0] if "=" in text else "", kind) for text, kind in found.items()]


def _common_name(kind: Sequence[Run]) -> str:
    if len(kind) == 1:
        return kind[0].name
    letters = zip(*(run.name for run in kind), strict=False)
    common = "".join(same_letter[0] for same_letter in takewhile(lambda column: len(set(column)) == 1, letters))
    return re.sub(r"[\s_.-]*(seed|s)?[\s_.-]*$", "", common) or kind[0].name


def _distinct(names: list[str]) -> list[str]:
    return [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})" for i, name in enumerate(names)
    ]
