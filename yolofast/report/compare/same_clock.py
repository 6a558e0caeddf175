"""Whether hours of different runs may be put beside one another: they have to count the same, on the same hardware.

Hours and money are facts of each run and are always shown. What follows from the hours of several – who is faster, what
one had reached when another was over, the Pareto front – would be of the machine as much as of what was chosen.
"""

from collections.abc import Callable, Sequence
from typing import Any

from yolofast.report.compare.by_value import by_value, differ
from yolofast.report.compare.remark import NOT_COMPARABLE, Remark
from yolofast.report.compare.run import MAP, Run
from yolofast.runs.settings import hardware_used

_OF_HOURS = ("hours", "seconds per epoch", f"{MAP} per hour")
_OF_THE_MACHINE = (*_OF_HOURS, "it/s", "img/s", "GPU busy, %", "wait for data, %")


def hours_differ(runs: Sequence[Run]) -> list[str]:
    """Why nothing follows from the hours of these runs; empty where they can be compared."""
    reasons = [f"different hardware ({what}): {by_value(runs, value)}" for what, value in _hardware(runs)]
    only, whole = _of_training_and_of_all(runs)
    if only and whole:
        reasons.append(f"those of {', '.join(only)} are of training alone, those of {', '.join(whole)} of everything")
    return reasons


def check_hours(runs: Sequence[Run]) -> list[Remark]:
    reasons = hours_differ(runs)
    if not reasons:
        return []
    so = "So nobody wins in them or in money, there is no Pareto front, and nothing is said of equal time between them"
    return [Remark(NOT_COMPARABLE, f"hours are not comparable: {'; '.join(reasons)}. {so}.")]


def rows_of_hours(runs: Sequence[Run]) -> dict[str, str]:
    """Rows of the summary that nobody wins -> why."""
    if _hardware(runs):
        return dict.fromkeys(_OF_THE_MACHINE, "other hardware")
    return dict.fromkeys(_OF_HOURS, "not comparable") if all(_of_training_and_of_all(runs)) else {}


def _of_training_and_of_all(runs: Sequence[Run]) -> tuple[list[str], list[str]]:
    """Runs whose hours are without evaluations, because they were resumed or have no summary; and the others."""
    only = [run.name for run in runs if "training alone" in run.timing.source]
    return only, [run.name for run in runs if run.timing.total is not None and run.name not in only]


def _hardware(runs: Sequence[Run]) -> list[tuple[str, Callable[[Run], Any]]]:
    """What of the machine differs. Where a run has a GPU and another has none, how many there are says nothing more."""
    if differ(runs, _used("gpu")):
        return [("gpu", _used("gpu"))]
    return [(what, _used(what)) for what in ("gpus", "cpu", "cpu_cores") if differ(runs, _used(what))]


def _used(what: str) -> Callable[[Run], Any]:
    return lambda run: hardware_used(run.settings, run.environment)[what]
