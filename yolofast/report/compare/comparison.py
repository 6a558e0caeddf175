"""Everything `compare` finds out, in one value; pages, tables and JSON are made from it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from yolofast.report.compare.classes import ClassRow, per_class
from yolofast.report.compare.comparability import check_together
from yolofast.report.compare.consistency import check_run
from yolofast.report.compare.counted import count_once
from yolofast.report.compare.differences import Differences, find_differences
from yolofast.report.compare.groups import Curves, Group, curves_of, group_runs
from yolofast.report.compare.money import AtTheSameTime, Cost, at_the_same_time, costs
from yolofast.report.compare.obstacle import no_one_wins, obstacle
from yolofast.report.compare.overtaking import Overtaking, overtakings
from yolofast.report.compare.remark import Remark, worst_first
from yolofast.report.compare.run import MAP, MAP50, Run
from yolofast.report.compare.same_clock import check_hours, hours_differ
from yolofast.report.compare.stability import AtEpochs, Stability, at_epochs, stability
from yolofast.report.compare.summary import HOURS, Row, summarise
from yolofast.report.compare.timing import with_hours
from yolofast.report.compare.verdict import Conclusion, conclude, within_chance


@dataclass(frozen=True, kw_only=True)
class Asked:
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
    asked: Asked
    runs: tuple[Run, ...]
    groups: tuple[Group, ...]
    """With the runs that count."""
    left_out: dict[str, str]
    """The other runs -> why."""
    curves: tuple[Curves, ...] = field(repr=False)
    summary: tuple[Row, ...]
    differences: Differences
    overtakings: dict[str, list[Overtaking]]
    """By accuracy: mAP50, mAP50-95. Between kinds that can be judged by it."""
    at_epochs: tuple[AtEpochs, ...]
    stability: tuple[Stability, ...]
    classes: tuple[ClassRow, ...]
    hours_differ: tuple[str, ...]
    """Why nothing follows from the hours of these runs; empty where they can be compared."""
    costs: tuple[Cost, ...]
    at_the_same_time: tuple[AtTheSameTime, ...]
    remarks: tuple[Remark, ...]
    conclusions: tuple[Conclusion, ...]


def compare(runs: Sequence[Run], asked: Asked) -> Comparison:
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
    groups: Sequence[Group], curves: Sequence[Curves], name: str, same_clock: Callable[[str, str], bool]
) -> list[Overtaking]:
    first, by_chance = groups[0], within_chance(groups, name)
    judged = {group.name for group in groups if group is first or not obstacle(first, group)}
    found = overtakings([curve for curve in curves if curve.name in judged], name, same_clock)
    return [replace(one, by_chance=bool(by_chance & {one.ahead, one.behind})) for one in found]


def _with_pace(runs: Sequence[Run], pace: Sequence[float]) -> Sequence[Run]:
    if not pace:
        return runs
    told = zip(runs, pace, strict=True)
    return [replace(run, timing=replace(run.timing, iterations_per_second=one)) for run, one in told]


def _with_hours(runs: Sequence[Run], hours: Sequence[float]) -> list[Run]:
    if not hours:
        return list(runs)
    return [
        replace(run, timing=with_hours(run.timing, told, len(run.epoch))) for run, told in zip(runs, hours, strict=True)
    ]
