"""A comparison as plain values. What is not known is null, because JSON has no nan."""

import math
from dataclasses import asdict
from typing import Any

from yolofast.report.compare.compared_run import ComparedRun
from yolofast.report.compare.comparison import Comparison
from yolofast.report.compare.differences import UNSAID, Difference
from yolofast.report.compare.kinds import KindCurves
from yolofast.runs.tracking import as_values

MADE_BY = "yolofast compare"


def as_json(found: Comparison) -> dict[str, Any]:
    """Epochs count from 1; differences are relative to the first kind of run."""
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
        "curves": [_curves(curve) for curve in found.curves],
    }
    cleaned: dict[str, Any] = _plain(values)
    return cleaned


def _run(run: ComparedRun) -> dict[str, Any]:
    timing = {key: value for key, value in asdict(run.timing).items() if key != "seconds"}
    return {
        "name": run.name,
        "folder": str(run.folder),
        "format": run.format,
        "epochs": len(run.epoch),
        "best_epoch": None if run.best is None else int(run.epoch[run.best]),
        "timing": timing,
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


def _curves(curve: KindCurves) -> dict[str, Any]:
    return {
        "name": curve.name,
        "epoch": curve.epoch.tolist(),
        "seconds": None if curve.seconds is None else curve.seconds.tolist(),
        "columns": {name: values.tolist() for name, values in curve.mean.items()},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
