"""Files a run may leave beside its results: scores per class, a profile. What is not in their form is left out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yolofast.known_numbers import known_number
from yolofast.report.compare.run import ClassScore, Phase, Profile
from yolofast.report.compare.settings_file import read_json
from yolofast.report.evaluated_epoch import epoch_of

PROFILE = "profile.json"
_EVALUATION = "evaluation.json"
_PER_CLASS = (_EVALUATION, "per_class_ap.json", "per_class.json")


def read_classes(folder: Path, problems: list[str]) -> dict[str, ClassScore]:
    """As `val --save-per-class-ap` writes them: `per_class: {id: {ap50, ap, name}}`."""
    for name in _PER_CLASS:
        if found := _classes(read_json(folder / name, problems).get("per_class")):
            return found
    return {}


def read_classes_epoch(folder: Path) -> int | None:
    """The epoch those scores are of, from 1; None where nobody knows, as of a file that `val` has written."""
    values = read_json(folder / _EVALUATION, [])
    return epoch_of(values) if _classes(values.get("per_class")) else None


def _classes(listed: Any) -> dict[str, ClassScore]:
    listed = dict(enumerate(listed)) if isinstance(listed, list) else listed
    scores: dict[str, ClassScore] = {}
    for key, row in listed.items() if isinstance(listed, dict) else ():
        if not isinstance(row, dict):
            continue
        ap50, ap = known_number(row.get("ap50")), known_number(row.get("ap"))
        if ap50 is not None and ap is not None:
            scores[str(row.get("name", key))] = ClassScore(ap50, ap)
    return scores


def read_validated(folder: Path) -> tuple[int | None, int | None]:
    """Images and boxes of the validation set, where the run has counted them."""
    values = read_json(folder / _EVALUATION, [])
    images, rows = values.get("images"), values.get("per_class")
    counts = [row.get("boxes") for row in rows.values() if isinstance(row, dict)] if isinstance(rows, dict) else []
    boxes = sum(count for count in counts if isinstance(count, int))
    return images if isinstance(images, int) else None, boxes or None


def read_profile(folder: Path, problems: list[str]) -> Profile | None:
    values = read_json(folder / PROFILE, problems)
    rows = values.get("phases")
    phases = [_phase(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    known = tuple(phase for phase in phases if phase is not None)
    if not known:
        if values:
            problems.append(f"{PROFILE} has no phases")
        return None
    return Profile(known, str(values.get("gear") or ""), known_number(values.get("gpu_busy")))


def _phase(row: Mapping[str, Any]) -> Phase | None:
    mean, std, share = (known_number(row.get(key)) for key in ("mean_ms", "std_ms", "share"))
    if "name" not in row or mean is None:
        return None
    unknown = float("nan")
    beside = str(row.get("beside") or "")
    return Phase(str(row["name"]), mean, unknown if std is None else std, unknown if share is None else share, beside)
