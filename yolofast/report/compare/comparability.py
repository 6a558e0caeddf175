"""Whether figures of different runs can be compared at all.

Accuracies need the same validation, losses the same assigner and heads, hours the same hardware and the same things
counted. Hours and money are always shown. What follows from the hours of several runs – who is faster, what one had
reached when another ended, the Pareto front – is said only where they can be compared. Runs whose files do not say
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
from yolofast.runs.layout import FILES, metrics
from yolofast.runs.settings import hardware_used

UNKNOWN = "unknown"
_SILENCE = (None, "", UNKNOWN)


def differ(runs: Sequence[ComparedRun], value: Callable[[ComparedRun], Any]) -> bool:
    """Among those that say it."""
    said = [one for one in map(value, runs) if one not in _SILENCE]
    return any(not same(one, said[0]) for one in said)


def by_value(runs: Sequence[ComparedRun], value: Callable[[ComparedRun], Any]) -> str:
    """Each value with the runs that have it, like `words.difference`: of many runs most have the same."""
    having: list[tuple[Any, list[str]]] = []
    for run in runs:
        said = value(run)
        if said in _SILENCE:
            continue
        names = next((names for other, names in having if same(said, other)), None)
        if names is None:
            having.append((said, [run.name]))
        else:
            names.append(run.name)
    return ", ".join(f"{said} ({', '.join(names)})" for said, names in having)


_OF_HOURS = ("hours", "seconds per epoch", f"{MAP} per hour")
_OF_THE_MACHINE = (*_OF_HOURS, "it/s", "img/s", "GPU busy, %", "wait for data, %")


def hours_differ(runs: Sequence[ComparedRun]) -> list[str]:
    """Why nothing follows from the hours of these runs; empty where they can be compared."""
    reasons = [f"different hardware ({what}): {by_value(runs, value)}" for what, value in _hardware(runs)]
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


def _hardware(runs: Sequence[ComparedRun]) -> list[tuple[str, Callable[[ComparedRun], Any]]]:
    """What of the machine differs. Where a run has a GPU and another has none, how many there are says nothing more."""
    if differ(runs, _used("gpu")):
        return [("gpu", _used("gpu"))]
    return [(what, _used(what)) for what in ("gpus", "cpu", "cpu_cores") if differ(runs, _used(what))]


def _used(what: str) -> Callable[[ComparedRun], Any]:
    return lambda run: hardware_used(run.settings, run.environment)[what]


TRAIN_LOSS, VAL_LOSS = "train loss, last epoch", "val loss, last epoch"
_GAINS = ("box", "obj", "cls", "cls_pw", "obj_pw", "fl_gamma", "label_smoothing", "dfl", "autobalance")
_EVALUATION = ("single_cls", "v5_metric", "rect", "conf", "iou", "conf_thres", "iou_thres", "test_conf", "nms")
"""The last two are those of a YOLOX recipe."""


def check_together(runs: Sequence[ComparedRun]) -> list[Remark]:
    found = [*_accuracies(runs), *_losses(runs), *_lengths(runs), _chances(runs)]
    return [remark for remark in found if remark is not None]


def without_winner(runs: Sequence[ComparedRun]) -> dict[str, str]:
    """Rows of the summary whose values mean different things -> why."""
    reasons: dict[str, str] = {}
    other_sums = differ(runs, lambda run: run.format) or differ(runs, _heads) or bool(_gains(runs))
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


def _accuracies(runs: Sequence[ComparedRun]) -> list[Remark | None]:
    return [_said(runs, value, what, words) for what, value, words in _EVALUATED]


def _losses(runs: Sequence[ComparedRun]) -> list[Remark | None]:
    other = "they are computed from different positives, so a lower one is no better one"
    return [
        _said(runs, assigner_of, "training losses of different assigners are not comparable", other),
        _said(runs, lambda run: run.format, "losses of different trainers are not comparable", "only accuracies are"),
        _said(runs, _heads, "losses of different heads are not comparable", "they are sums over heads"),
        *(
            _said(runs, _setting(key), f"losses with different {key}", "their levels differ by it")
            for key in _gains(runs)
        ),
    ]


def _chances(runs: Sequence[ComparedRun]) -> Remark | None:
    """The best of many evaluations is also the luckiest; `--notest` leaves a single one."""
    evaluated = [run for run in runs if run.best is not None]
    shares = [np.isfinite(run.fitness).mean() for run in evaluated]
    if not shares or min(shares) >= max(shares) / 2:
        return None
    counts = by_value(evaluated, lambda run: f"{np.isfinite(run.fitness).sum()} of {len(run.epoch)}")
    advice = "the best of many had more chances to be a lucky one, so look at the rows of the last epoch too"
    return Remark(NOTE, f"epochs that were evaluated: {counts}; {advice}.")


def _lengths(runs: Sequence[ComparedRun]) -> list[Remark | None]:
    unknown = [run.name for run in runs if run.timing.total is None]
    if not unknown:
        return []
    text = f"no file says how long {', '.join(unknown)} took; give it: --hours, a number for each run"
    return [Remark(INCOMPLETE, f"{text}.")]


def _said(runs: Sequence[ComparedRun], value: Callable[[ComparedRun], Any], what: str, words: str) -> Remark | None:
    if not differ(runs, value):
        return None
    return Remark(NOT_COMPARABLE, f"{what}: {by_value(runs, value)}; {words}.")


def _gains(runs: Sequence[ComparedRun]) -> list[str]:
    return [key for key in _GAINS if differ(runs, _setting(key))]


def _setting(key: str) -> Callable[[ComparedRun], Any]:
    return lambda run: run.settings.get(key)


def _data(run: ComparedRun) -> str:
    """The name of its file, with that of its folder where every data set has such a file."""
    path = Path(str(run.settings.get("data") or ""))
    return "/".join(path.parts[-2:]) if path.stem in ("data", "dataset") else path.name


def _classes(run: ComparedRun) -> int | None:
    return len(run.classes) or None


def _evaluated_size(run: ComparedRun) -> Any:
    """Of a YOLOX height and width, which its recipe states; otherwise the last number: the first is trained at."""
    if "input_size" in run.settings:
        return run.settings["input_size"]
    sizes = run.settings.get("img_size")
    return sizes[-1] if isinstance(sizes, list) and sizes else sizes


def _heads(run: ComparedRun) -> str:
    """Over which heads its losses are summed; a 1B4H without a grouping of its own has the standard one."""
    named, cfg = (str(run.settings.get(key) or "") for key in ("head_config", "cfg"))
    grouping = Path(named).stem or ("standard" if "1b4h" in cfg.lower() else "")
    if grouping:
        return f"several, grouped by {grouping}"
    number = run.settings.get("heads")
    return UNKNOWN if number is None else "one" if number in (0, 1) else str(number)


_IMAGES, _MOVES = "so their accuracies are not of the same images", "which moves mAP"
_EVALUATED: tuple[tuple[str, Callable[[ComparedRun], Any], str], ...] = (
    ("different validation sets", _data, _IMAGES),
    ("different numbers of validation images", lambda run: run.validated[0], _IMAGES),
    ("different numbers of validation boxes", lambda run: run.validated[1], _IMAGES),
    ("different numbers of classes", _classes, "so mAP is a mean over different things"),
    ("evaluated at different sizes", _evaluated_size, _MOVES),
    *((f"evaluated with different {key}", _setting(key), _MOVES) for key in _EVALUATION),
)
