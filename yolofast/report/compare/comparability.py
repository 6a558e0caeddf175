"""Whether figures of different runs can be compared at all.

Accuracies need the same validation, losses the same assigner and heads, hours the same hardware and the same things
counted. Hours and money are always shown. What follows from them is said only where they can be compared: who is
faster, what one run had reached when another ended, the Pareto front. Runs whose files do not say
something are no obstacle.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.report.compare.compared_run import MAP, MAP50, YOLOV7, ComparedRun
from yolofast.report.compare.consistency import INCOMPLETE, NOT_COMPARABLE, NOTE, Remark
from yolofast.report.compare.differences import same
from yolofast.report.compare.figures import WEIGHTS
from yolofast.resources import ends_in_several_heads
from yolofast.runs.layout import FILES, metrics
from yolofast.runs.settings import hardware_used

Value = Callable[[ComparedRun], Any]
UNKNOWN = "unknown"
_SILENCE = (None, "", UNKNOWN)


def differ(runs: Sequence[ComparedRun], value: Value) -> bool:
    """Among those that say it."""
    return len(_by_value(runs, value)) > 1


def values_with_runs(runs: Sequence[ComparedRun], value: Value) -> str:
    """Each value with the runs that have it, like `words.difference`: of many runs most have the same."""
    return ", ".join(f"{said} ({', '.join(names)})" for said, names in _by_value(runs, value))


def _by_value(runs: Sequence[ComparedRun], value: Value) -> list[tuple[Any, list[str]]]:
    found: list[tuple[Any, list[str]]] = []
    for run in runs:
        said = value(run)
        if said not in _SILENCE:
            names = next((names for other, names in found if same(said, other)), None)
            if names is None:
                found.append((said, names := []))
            names.append(run.name)
    return found


_OF_HOURS = ("hours", "seconds per epoch", f"{MAP} per hour")
_OF_THE_MACHINE = (*_OF_HOURS, "it/s", "img/s", "GPU busy, %", "wait for data, %")


def hours_differ(runs: Sequence[ComparedRun]) -> list[str]:
    """Why nothing follows from the hours of these runs; empty where they can be compared."""
    reasons = [f"different hardware ({what}): {values_with_runs(runs, value)}" for what, value in _hardware(runs)]
    only, whole = _of_training_and_of_all(runs)
    if only and whole:
        reasons.append(f"those of {', '.join(only)} are of training alone, those of {', '.join(whole)} of everything")
    return reasons


def check_hours(runs: Sequence[ComparedRun]) -> list[Remark]:
    reasons = hours_differ(runs)
    if not reasons:
        return []
    so = "So nobody wins in them or in money, there is no Pareto front, and nothing is said of equal time between them"
    return [Remark(NOT_COMPARABLE, f"hours are not comparable: {'; '.join(reasons)}. {so}.")]


def rows_of_hours(runs: Sequence[ComparedRun]) -> dict[str, str]:
    """Rows of the summary that nobody wins -> why."""
    if _hardware(runs):
        return dict.fromkeys(_OF_THE_MACHINE, "other hardware")
    return dict.fromkeys(_OF_HOURS, "not comparable") if all(_of_training_and_of_all(runs)) else {}


def _of_training_and_of_all(runs: Sequence[ComparedRun]) -> tuple[list[str], list[str]]:
    """Runs whose hours are without evaluations, because they were resumed or have no summary; and the others."""
    only = [run.name for run in runs if "training alone" in run.timing.source]
    return only, [run.name for run in runs if run.timing.total is not None and run.name not in only]


def _hardware(runs: Sequence[ComparedRun]) -> list[tuple[str, Value]]:
    """What of the machine differs. Where a run has a GPU and another has none, how many there are says nothing more."""

    def used(what: str) -> Value:
        return lambda run: hardware_used(run.settings, run.environment)[what]

    found = [(what, used(what)) for what in ("gpu", "gpus", "cpu", "cpu_cores") if differ(runs, used(what))]
    return found[:1] if found and found[0][0] == "gpu" else found


TRAIN_LOSS, VAL_LOSS = "train loss, last epoch", "val loss, last epoch"
_GAINS = ("box", "obj", "cls", "cls_pw", "obj_pw", "fl_gamma", "label_smoothing", "dfl", "autobalance")
_EVALUATION = ("single_cls", "v5_metric", "rect", "conf", "iou", "conf_thres", "iou_thres", "test_conf", "nms")
"""The last two are those of a YOLOX recipe."""


def check_together(runs: Sequence[ComparedRun]) -> list[Remark]:
    found = [
        Remark(NOT_COMPARABLE, f"{what}: {values_with_runs(runs, value)}; {words}.")
        for what, value, words in (*_EVALUATED, *_LOSSES)
        if differ(runs, value)
    ]
    if unknown := [run.name for run in runs if run.timing.total is None]:
        text = f"no file says how long {', '.join(unknown)} took; give it: --hours, a number for each run."
        found.append(Remark(INCOMPLETE, text))
    return [*found, *_chances(runs)]


def without_winner(runs: Sequence[ComparedRun]) -> dict[str, str]:
    """Rows of the summary whose values mean different things -> why."""
    reasons: dict[str, str] = {}
    other_sums = any(differ(runs, value) for value in (lambda run: run.format, _heads, *map(_setting, _GAINS)))
    if other_sums or differ(runs, assigner_of):
        reasons[TRAIN_LOSS] = "not comparable"
    if other_sums or differ(runs, _data) or differ(runs, _val_assigner):
        reasons[VAL_LOSS] = "not comparable"
    if differ(runs, lambda run: run.number("batch_size")):
        reasons["it/s"] = "batches differ"
    if any(file.name == FILES.best and file.has_more_than_weights for run in runs for file in run.weights):
        reasons[WEIGHTS] = "not stripped"
    reasons |= rows_of_hours(runs)
    if accuracies_differ(runs):
        reasons |= dict.fromkeys((*accuracies(), VAL_LOSS), "not comparable")
    return reasons


def accuracies() -> tuple[str, ...]:
    """Rows of the summary that nobody wins unless everybody was evaluated alike."""
    return (*(one.title for one in metrics()), f"{MAP50}, last epoch", f"{MAP}, last epoch", f"{MAP} per hour")


def accuracies_differ(runs: Sequence[ComparedRun]) -> list[str]:
    """What was not the same when they were evaluated."""
    evaluated = [run for run in runs if run.best is not None]
    return [what for what, value, _ in _EVALUATED if differ(evaluated, value)]


def assigner_of(run: ComparedRun) -> str:
    """Which positives its losses are of, by its batches or its settings."""
    if run.assigners:
        return ", then ".join(run.assigners)
    named = run.settings.get("assigner") or UNKNOWN
    if isinstance(named, list) and all(isinstance(step, list) and step for step in named):
        return ", then ".join(dict.fromkeys(str(step[-1]) for step in named))
    return str(named)


def _val_assigner(run: ComparedRun) -> str:
    """YOLOv7 validates with one assigner, whichever it trains with; so do we where we do as it does."""
    return "anchor" if run.format == YOLOV7 or run.settings.get("faithful") else assigner_of(run)


def _chances(runs: Sequence[ComparedRun]) -> list[Remark]:
    """The best of many evaluations is also the luckiest; `--notest` leaves a single one."""
    evaluated = [run for run in runs if run.best is not None]
    shares = [np.isfinite(run.fitness).mean() for run in evaluated]
    if not shares or min(shares) >= max(shares) / 2:
        return []
    counts = values_with_runs(evaluated, lambda run: f"{np.isfinite(run.fitness).sum()} of {len(run.epoch)}")
    advice = "the best of many had more chances to be a lucky one, so look at the rows of the last epoch too"
    return [Remark(NOTE, f"epochs that were evaluated: {counts}; {advice}.")]


def _setting(key: str) -> Value:
    return lambda run: run.settings.get(key)


def _data(run: ComparedRun) -> str:
    """The name of its file, with that of its folder where every data set has such a file."""
    path = Path(str(run.settings.get("data") or ""))
    return "/".join(path.parts[-2:]) if path.stem in ("data", "dataset") else path.name


def _evaluated_size(run: ComparedRun) -> Any:
    """Of a YOLOX height and width, which its recipe states; otherwise the last number: the first is trained at."""
    if "input_size" in run.settings:
        return run.settings["input_size"]
    sizes = run.settings.get("img_size")
    return sizes[-1] if isinstance(sizes, list) and sizes else sizes


def _heads(run: ComparedRun) -> str:
    """Over which heads its losses are summed; a 1B4H without a grouping of its own has the standard one.

    Its model file says whether it is one; where that is gone, its name.
    """
    named, cfg = (str(run.settings.get(key) or "") for key in ("head_config", "cfg"))
    several = ends_in_several_heads(cfg) if cfg else False
    several = "1b4h" in cfg.lower() if several is None else several
    grouping = Path(named).stem or ("standard" if several else "")
    if grouping:
        return f"several, grouped by {grouping}"
    number = run.settings.get("heads")
    return UNKNOWN if number is None else "one" if number in (0, 1) else str(number)


EVALUATED_SIZES = "evaluated at different sizes"
_IMAGES, _MOVES = "so their accuracies are not of the same images", "which moves mAP"
_EVALUATED: tuple[tuple[str, Value, str], ...] = (
    ("different validation sets", _data, _IMAGES),
    ("different numbers of validation images", lambda run: run.validated[0], _IMAGES),
    ("different numbers of validation boxes", lambda run: run.validated[1], _IMAGES),
    ("different numbers of classes", lambda run: len(run.classes) or None, "so mAP is a mean over different things"),
    (EVALUATED_SIZES, _evaluated_size, _MOVES),
    *((f"evaluated with different {key}", _setting(key), _MOVES) for key in _EVALUATION),
)
_LOSSES: tuple[tuple[str, Value, str], ...] = (
    (
        "training losses of different assigners are not comparable",
        assigner_of,
        "they are computed from different positives, so a lower one is no better one",
    ),
    ("losses of different trainers are not comparable", lambda run: run.format, "only accuracies are"),
    ("losses of different heads are not comparable", _heads, "they are sums over heads"),
    *((f"losses with different {key}", _setting(key), "their levels differ by it") for key in _GAINS),
)
