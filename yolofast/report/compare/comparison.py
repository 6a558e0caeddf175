"""Everything `compare` finds out, in one value; pages, tables and JSON are made from it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from yolofast.report.compare.comparability import check_hours, check_together, hours_differ
from yolofast.report.compare.compared_run import MAP, MAP50, ComparedRun
from yolofast.report.compare.conclusion import Conclusion, conclude, no_one_wins, obstacle, within_chance
from yolofast.report.compare.consistency import Remark, check_run, worst_first
from yolofast.report.compare.differences import Differences, find_differences
from yolofast.report.compare.figures import HOURS, ComparedClass, Row, per_class, summarise
from yolofast.report.compare.hours import with_hours
from yolofast.report.compare.kinds import Group, KindCurves, count_once, curves_of, group_runs
from yolofast.report.compare.money import AtTheSameTime, Cost, at_the_same_time, costs
from yolofast.report.compare.overtaking import AtEpochs, Overtaking, Stability, at_epochs, overtakings, stability


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
    asked: CompareRequest
    runs: tuple[ComparedRun, ...]
    groups: tuple[Group, ...]
    """With the runs that count."""
    left_out: dict[str, str]
    """The other runs -> why."""
    curves: tuple[KindCurves, ...] = field(repr=False)
    summary: tuple[Row, ...]
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


def compare(runs: Sequence[ComparedRun], asked: CompareRequest) -> Comparison:
    """The first run, or its kind, is what the others are compared with."""
    runs = tuple(_with_hours(_with_pace(runs, asked.pace), asked.hours))
    counted = count_once(group_runs(runs, asked.groups))
    groups = counted.groups
    counting = [run for group in groups for run in group.runs]
    undecided, same_clock = no_one_wins(groups), _same_clock(groups)
    curves = tuple(curve for curve in map(curves_of, groups) if len(curve.epoch))
    return Comparison(
        asked=asked,
        runs=runs,
        groups=groups,
        left_out=counted.left_out,
        curves=curves,
        summary=tuple(summarise(groups, asked.price, undecided)),
        differences=find_differences(runs),
        overtakings={name: _overtakings(groups, curves, name, same_clock) for name in (MAP50, MAP)},
        at_epochs=tuple(at_epochs(curves, asked.epochs)),
        stability=tuple(stability(groups, asked.last)),
        classes=tuple(per_class(groups)),
        hours_differ=tuple(hours_differ(counting)),
        costs=tuple(costs(groups, asked.price, comparable=not {MAP, HOURS} & undecided.keys())),
        at_the_same_time=tuple(at_the_same_time(curves, same_clock)),
        remarks=worst_first(
            [
                *check_together(runs),
                *check_hours(counting),
                *(one for run in runs for one in check_run(run, asked.images)),
                *counted.remarks,
            ]
        ),
        conclusions=tuple(conclude(groups, asked.last)) if len(groups) > 1 else (),
    )


def _same_clock(groups: Sequence[Group]) -> Callable[[str, str], bool]:
    """Whether the hours of two kinds, by their names, can be compared. Others may still differ from both."""
    runs = {group.name: group.runs for group in groups}
    return lambda one, other: not hours_differ([*runs[one], *runs[other]])


def _overtakings(
    groups: Sequence[Group], curves: Sequence[KindCurves], name: str, same_clock: Callable[[str, str], bool]
) -> list[Overtaking]:
    first, by_chance = groups[0], within_chance(groups, name)
    judged = {group.name for group in groups if group is first or not obstacle(first, group)}
    found = overtakings([curve for curve in curves if curve.name in judged], name, same_clock)
    return [replace(one, by_chance=bool(by_chance & {one.ahead, one.behind})) for one in found]


def _with_pace(runs: Sequence[ComparedRun], pace: Sequence[float]) -> Sequence[ComparedRun]:
    if not pace:
        return runs
    told = zip(runs, pace, strict=True)
    return [replace(run, timing=replace(run.timing, iterations_per_second=one)) for run, one in told]


def _with_hours(runs: Sequence[ComparedRun], hours: Sequence[float]) -> list[ComparedRun]:
    if not hours:
        return list(runs)
    return [
        replace(run, timing=with_hours(run.timing, told, len(run.epoch))) for run, told in zip(runs, hours, strict=True)
    ]
