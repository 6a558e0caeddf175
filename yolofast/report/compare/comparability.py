"""Whether figures of different runs may be put beside one another at all."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from yolofast.report.compare.differences import same
from yolofast.report.compare.remark import INCOMPLETE, NOT_COMPARABLE, NOTE, Remark
from yolofast.report.compare.run import MAP, MAP50, PRECISION, RECALL, YOLOV7, Run

TRAIN_LOSS, VAL_LOSS = "train loss, last epoch", "val loss, last epoch"
_GAINS = ("box", "obj", "cls", "cls_pw", "obj_pw", "fl_gamma", "label_smoothing", "dfl", "autobalance")
_EVALUATION = ("single_cls", "v5_metric", "rect", "conf", "iou", "conf_thres", "iou_thres")
_HARDWARE = ("gpu", "gpus", "cpu_cores")
ACCURACIES = (MAP50, MAP, PRECISION, RECALL, f"{MAP50}, last epoch", f"{MAP}, last epoch", f"{MAP} per hour")
"""Rows of the summary that nobody wins unless everybody was evaluated alike."""
_OF_HOURS = ("hours", "seconds per epoch", f"{MAP} per hour")
UNKNOWN = "unknown"
_SILENCE = (None, "", UNKNOWN)


def check_together(runs: Sequence[Run]) -> list[Remark]:
    found = [*_accuracies(runs), *_losses(runs), *_speeds(runs), *_lengths(runs)]
    return [remark for remark in found if remark is not None]


def without_winner(runs: Sequence[Run]) -> dict[str, str]:
    """Rows of the summary whose values mean different things -> why."""
    reasons: dict[str, str] = {}
    if _differ(runs, assigner_of) or _differ(runs, lambda run: run.format) or _gains(runs):
        reasons[TRAIN_LOSS] = "not comparable"
    if _differ(runs, _data) or _differ(runs, lambda run: run.format) or _gains(runs) or _differ(runs, _val_assigner):
        reasons[VAL_LOSS] = "not comparable"
    if _differ(runs, lambda run: run.number("batch_size")):
        reasons["it/s"] = "batches differ"
    if accuracies_differ(runs):
        reasons |= dict.fromkeys((*ACCURACIES, VAL_LOSS), "not comparable")
    if all(_of_training_and_of_all(runs)):
        reasons |= dict.fromkeys(_OF_HOURS, "not comparable")
    return reasons


def accuracies_differ(runs: Sequence[Run]) -> list[str]:
    """What was not the same when they were evaluated."""
    evaluated = [run for run in runs if run.best is not None]
    return [what for what, value, _ in _EVALUATED if _differ(evaluated, value)]


def assigner_of(run: Run) -> str:
    """Which positives its losses are of, by its batches or its settings."""
    if run.assigners:
        return ", then ".join(run.assigners)
    if named := run.settings.get("assigner"):
        return str(named)
    ota = run.settings.get("loss_ota")
    return UNKNOWN if ota is None else "ota" if ota else "anchor"


def _val_assigner(run: Run) -> str:
    """YOLOv7 validates with one assigner, whichever it trains with; so do we where we do as it does."""
    return "anchor" if run.format == YOLOV7 or run.settings.get("faithful") else assigner_of(run)


def _accuracies(runs: Sequence[Run]) -> list[Remark | None]:
    return [_said(runs, value, what, words) for what, value, words in _EVALUATED]


def _losses(runs: Sequence[Run]) -> list[Remark | None]:
    other = "they are computed from different positives, so a lower one is no better one"
    return [
        _said(runs, assigner_of, "training losses of different assigners are not comparable", other),
        _said(runs, lambda run: run.format, "losses of different trainers are not comparable", "only accuracies are"),
        *(
            _said(runs, _setting(key), f"losses with different {key}", "their levels differ by it")
            for key in _gains(runs)
        ),
    ]


def _speeds(runs: Sequence[Run]) -> list[Remark | None]:
    found = [
        _said(runs, _part_of_machine(key), f"different hardware ({key})", "hours are not comparable", NOTE)
        for key in _HARDWARE
    ]
    only, whole = _of_training_and_of_all(runs)
    if only and whole:
        text = f"the hours of {', '.join(only)} are of training alone, those of {', '.join(whole)} of everything"
        found.append(Remark(NOT_COMPARABLE, f"{text}."))
    return found


def _of_training_and_of_all(runs: Sequence[Run]) -> tuple[list[str], list[str]]:
    """Runs whose hours are without evaluations, because they were resumed or have no summary; and the others."""
    only = [run.name for run in runs if "training alone" in run.timing.source]
    return only, [run.name for run in runs if run.timing.total is not None and run.name not in only]


def _lengths(runs: Sequence[Run]) -> list[Remark | None]:
    unknown = [run.name for run in runs if run.timing.total is None]
    if not unknown:
        return []
    text = f"no file says how long {', '.join(unknown)} took; give it: --hours, a number for each run"
    return [Remark(INCOMPLETE, f"{text}.")]


def _said(
    runs: Sequence[Run], value: Callable[[Run], Any], what: str, words: str, kind: str = NOT_COMPARABLE
) -> Remark | None:
    if not _differ(runs, value):
        return None
    return Remark(kind, f"{what}: {_by_value(runs, value)}; {words}.")


def _by_value(runs: Sequence[Run], value: Callable[[Run], Any]) -> str:
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


def _differ(runs: Sequence[Run], value: Callable[[Run], Any]) -> bool:
    """Among those that say it."""
    said = [one for one in map(value, runs) if one not in _SILENCE]
    return any(not same(one, said[0]) for one in said)


def _gains(runs: Sequence[Run]) -> list[str]:
    return [key for key in _GAINS if _differ(runs, _setting(key))]


def _setting(key: str) -> Callable[[Run], Any]:
    return lambda run: run.settings.get(key)


def _part_of_machine(key: str) -> Callable[[Run], Any]:
    return lambda run: run.environment.get(key)


def _data(run: Run) -> str:
    """The name of its file, with that of its folder where every data set has such a file."""
    path = Path(str(run.settings.get("data") or ""))
    return "/".join(path.parts[-2:]) if path.stem in ("data", "dataset") else path.name


def _classes(run: Run) -> int | None:
    return len(run.classes) or None


def _last(sizes: Any) -> Any:
    return sizes[-1] if isinstance(sizes, list) and sizes else sizes


_IMAGES, _MOVES = "so their accuracies are not of the same images", "which moves mAP"
_EVALUATED: tuple[tuple[str, Callable[[Run], Any], str], ...] = (
    ("different validation sets", _data, _IMAGES),
    ("different numbers of validation images", lambda run: run.validated[0], _IMAGES),
    ("different numbers of validation boxes", lambda run: run.validated[1], _IMAGES),
    ("different numbers of classes", _classes, "so mAP is a mean over different things"),
    ("evaluated at different sizes", lambda run: _last(run.settings.get("img_size")), _MOVES),
    *((f"evaluated with different {key}", _setting(key), _MOVES) for key in _EVALUATION),
)
