"""Everything `compare` finds out, in one value; pages, tables and JSON are made from it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from yolofast.report.compare.comparability import check_hours, check_together, hours_differ
from yolofast.report.compare.compared_run import MAP, MAP50, ComparedRun
from yolofast.report.compare.conclusion import Conclusion, conclude, no_one_wins, obstacle, within_chance
from yolofast.report.compare.consistency import Remark, check_run, worst_first
from yolofast.report.compare.differences import UNSAID, Difference, Differences, find_differences
from yolofast.report.compare.figures import HOURS, ComparedClass, ComparedRow, per_class, summarise
from yolofast.report.compare.kinds import Group, KindCurves, count_once, curves_of, group_runs
from yolofast.report.compare.money import AtTheSameTime, Cost, at_the_same_time, costs
from yolofast.report.compare.overtaking import AtEpochs, Overtaking, Stability, at_epochs, overtakings, stability
from yolofast.report.compare.questions import answers
from yolofast.report.compare.uses import UseAdvice, advise
from yolofast.runs.tracking import as_values

MADE_BY = "yolofast compare"


@dataclass(frozen=True, kw_only=True)
class CompareRequest:
    """What the user wants to see."""

    price: float | None = None
    """Of an hour of the machine."""
    epochs: tuple[int, ...] = ()
    last: int = 10
    groups: tuple[str, ...] = ()
    hours: tuple[float, ...] = ()
    """Of each run, where its files do not say it."""
    pace: tuple[float, ...] = ()
    """Iterations a second of each run, likewise."""
    images: int | None = None
    """Of the training set."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    request: CompareRequest
    runs: tuple[ComparedRun, ...]
    groups: tuple[Group, ...]
    """With the runs that count."""
    left_out: dict[str, str]
    """The other runs -> why."""
    curves: tuple[KindCurves, ...] = field(repr=False)
    summary: tuple[ComparedRow, ...]
    differences: Differences
    overtakings: dict[str, list[Overtaking]]
    """By accuracy: mAP50, mAP50-95. Between kinds that can be judged by it."""
    at_epochs: tuple[AtEpochs, ...]
    stability: tuple[Stability, ...]
    classes: tuple[ComparedClass, ...]
    hours_differ: tuple[str, ...]
    """Why nothing follows from the hours of these runs; empty where they can be compared."""
    costs: tuple[Cost, ...]
    at_the_same_time: tuple[AtTheSameTime, ...]
    remarks: tuple[Remark, ...]
    conclusions: tuple[Conclusion, ...]
    uses: tuple[UseAdvice, ...]
    """Which kind to take for what."""


def compare(runs: Sequence[ComparedRun], request: CompareRequest) -> Comparison:
    """The first run, or its kind, is what the others are compared with."""
    runs = _with_given_timing(runs, request)
    counted = count_once(group_runs(runs, request.groups))
    groups = counted.groups
    counting = [run for group in groups for run in group.runs]
    undecided, by_name = no_one_wins(groups), {group.name: group.runs for group in groups}

    def same_clock(one: str, other: str) -> bool:
        """Whether the hours of two kinds can be compared. Others may still differ from both."""
        return not hours_differ([*by_name[one], *by_name[other]])

    of_runs = [remark for run in runs for remark in check_run(run, request.images)]
    curves = tuple(curve for curve in map(curves_of, groups) if len(curve.epoch))
    summary = tuple(summarise(groups, request.price, undecided))
    same_time = tuple(at_the_same_time(curves, same_clock))
    uses = [*advise([group.name for group in groups], summary, same_time), *answers(groups)] if len(groups) > 1 else []
    lost = {group.name for group in groups if any(run.lost for run in group.runs)}
    return Comparison(
        request=request,
        runs=runs,
        groups=groups,
        left_out=counted.left_out,
        curves=curves,
        summary=summary,
        differences=find_differences(runs),
        overtakings={name: _overtakings(groups, curves, name, same_clock) for name in (MAP50, MAP)},
        at_epochs=tuple(at_epochs(curves, request.epochs)),
        stability=tuple(stability(groups, request.last)),
        classes=tuple(per_class(groups)),
        hours_differ=tuple(hours_differ(counting)),
        costs=tuple(costs(groups, request.price, comparable=not {MAP, HOURS} & undecided.keys())),
        at_the_same_time=same_time,
        remarks=worst_first((*check_together(runs), *check_hours(counting), *of_runs, *counted.remarks)),
        conclusions=tuple(conclude(groups, request.last)) if len(groups) > 1 else (),
        uses=tuple(one for one in uses if one.take not in lost),
    )


def _overtakings(
    groups: Sequence[Group], curves: Sequence[KindCurves], name: str, same_clock: Callable[[str, str], bool]
) -> list[Overtaking]:
    first, by_chance = groups[0], within_chance(groups, name)
    judged = {group.name for group in groups if group is first or not obstacle(first, group)}
    found = overtakings([curve for curve in curves if curve.name in judged], name, same_clock)
    return [replace(one, by_chance=bool(by_chance & {one.ahead, one.behind})) for one in found]


def _with_given_timing(runs: Sequence[ComparedRun], request: CompareRequest) -> tuple[ComparedRun, ...]:
    found = []
    for place, run in enumerate(runs):
        timing, epochs = run.timing, len(run.epoch)
        if request.pace:
            timing = replace(timing, iterations_per_second=request.pace[place])
        if request.hours:
            total = 3600 * request.hours[place]
            seconds = np.linspace(total / epochs, total, epochs)
            timing = replace(timing, seconds=seconds, total=total, source="--hours", evenly=True)
        found.append(replace(run, timing=timing))
    return tuple(found)


def as_json(found: Comparison) -> dict[str, Any]:
    """Epochs count from 1; differences are relative to the first kind of run. Unknown is null: JSON has no NaN."""
    names = [group.name for group in found.groups]
    values = {
        "made_by": MADE_BY,
        "runs": [_run(run) for run in found.runs],
        "kinds": [
            {"name": group.name, "runs": [run.name for run in group.runs], "copy_of": group.copy_of or None}
            for group in found.groups
        ],
        "left_out": found.left_out,
        "summary": [
            {
                "name": row.name,
                "better": row.better or None,
                "values": [None if value is None else {**asdict(value), "n": value.n} for value in row.values],
                "changes": [row.change(place) for place in range(len(row.values))],
                "winner": None if row.winner is None else names[row.winner],
                "remark": row.remark,
            }
            for row in found.summary
        ],
        "differ": [_difference(one) for one in found.differences.differ],
        "equal": {one.key: one.values[0] for one in found.differences.equal},
        "said_by_some": [_difference(one) for one in found.differences.partly],
        "overtakings": {name: [asdict(one) for one in listed] for name, listed in found.overtakings.items()},
        "at_epochs": [asdict(one) for one in found.at_epochs],
        "stability": [asdict(one) for one in found.stability],
        "classes": [{**asdict(row), "gain": row.gain} for row in found.classes],
        "costs": [asdict(one) for one in found.costs],
        "hours_differ": list(found.hours_differ),
        "at_the_same_time": [asdict(one) for one in found.at_the_same_time],
        "remarks": [asdict(one) for one in found.remarks],
        "conclusions": [asdict(one) for one in found.conclusions],
        "uses": [asdict(one) for one in found.uses],
        "curves": [
            {"name": one.name, "epoch": one.epoch, "seconds": one.seconds, "columns": one.mean} for one in found.curves
        ],
    }
    return dict(_plain(values))


def _run(run: ComparedRun) -> dict[str, Any]:
    return {
        "name": run.name,
        "folder": str(run.folder),
        "format": run.format,
        "epochs": len(run.epoch),
        "best_epoch": None if run.best is None else int(run.epoch[run.best]),
        "timing": {key: value for key, value in asdict(run.timing).items() if key != "seconds"},
        "profile": None if run.profile is None else asdict(run.profile),
        "tracking": None if run.tracking is None else as_values(run.tracking),
        "weights": [
            {"name": file.name, "bytes": file.bytes, "entries": dict(file.entries), "stripped": file.stripped}
            for file in run.weights
        ],
    }


def _difference(one: Difference) -> dict[str, Any]:
    said = [None if value is UNSAID else value for value in one.values]
    return {"where": one.where, "key": one.key, "kind": one.kind, "values": said}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
