"""How long a run took, and its pace, from whichever of its files knows it best.

Our `time` counts training alone; the hours of `summary.json`, where they are of the whole run, are spread over the
epochs in proportion, because the GPU is paid for while it evaluates as well. Those of a resumed run are of its last
process, which may be longer than all training and still not the whole.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from yolofast.files.known_numbers import known_number
from yolofast.report.compare.compared_run import OURS, RunHours, as_batch
from yolofast.report.compare.read_rows import Rows
from yolofast.report.logs.history import Floats
from yolofast.runs.layout import FILES, SPEED

_SHORTEST, _LONGEST = 1e-6, 1e12
"""Seconds that a run can have taken. Others are not known: how often one goes into the other would overflow."""


def find_timing(rows: Rows, summary: Mapping[str, Any], batches: int | None, args: Mapping[str, Any]) -> RunHours:
    """`batches`: of an epoch, where they were recorded."""
    clock = rows.columns.get("seconds")
    seconds = None if clock is None else _never_back(clock)
    if seconds is not None and _can_be(seconds):
        if rows.format == OURS:
            return _of_ours(rows, seconds, {} if args.get("resume") else summary, batches, args.get("batch_size"))
        return RunHours(seconds=seconds, total=float(seconds[-1]), source="the column `time`")
    return RunHours()


def with_hours(timing: RunHours, hours: float, epochs: int) -> RunHours:
    """Told by the user."""
    total = hours * 3600
    seconds = np.linspace(total / epochs, total, epochs)
    return dataclasses.replace(timing, seconds=seconds, total=total, source="--hours", evenly=True)


def _of_ours(rows: Rows, train: Floats, summary: Mapping[str, Any], batches: int | None, batch: object) -> RunHours:
    wall, trained = known_number(summary.get("wall_seconds")), float(train[-1])
    whole = wall if wall is not None and trained <= wall <= _LONGEST else trained
    speeds, lengths = rows.columns[SPEED.name], np.diff(train, prepend=0.0)
    images = float(np.nansum(speeds * lengths))
    pace = images / trained
    return RunHours(
        seconds=train * (whole / trained),
        total=whole,
        source=FILES.summary if whole > trained else "the column `time`, training alone",
        iterations=batches,
        iterations_per_second=_pace(batches, len(rows.epoch), trained, pace, batch),
        images_per_second=pace,
        images=round(float(np.nanmedian(speeds * lengths))) if np.isfinite(speeds).any() else None,
    )


def _pace(batches: int | None, epochs: int, seconds: float, images: float | None, batch: object) -> float | None:
    if batches and seconds > 0:
        return batches * epochs / seconds
    known = as_batch(batch)
    return images / known if images and known is not None else None


def _can_be(seconds: Floats) -> bool:
    return bool(np.isfinite(seconds).all() and _SHORTEST <= seconds[-1] <= _LONGEST)


def _never_back(clock: Floats) -> Floats:
    """A resumed run may count from 0 again: what it took before is added. What has no end is unknown."""
    clock = np.where(np.isfinite(clock), clock, np.nan)
    steps = np.diff(clock, prepend=0.0)
    return np.asarray(np.cumsum(np.where(steps < 0, clock, steps)))
