"""How long a run took, and its pace, from whichever of its files knows it best.

Our `time` counts training alone; the hours of `summary.json`, where they are of the whole run, are spread over the
epochs in proportion, because the GPU is paid for while it evaluates as well. Those of a resumed run are of its last
process, which may be longer than all training and still not the whole.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.report.compare.curves_file import Rows
from yolofast.report.compare.event_times import epoch_seconds
from yolofast.report.compare.run import OURS, Timing
from yolofast.report.compare.terminal_log import read_told
from yolofast.report.history import Floats


def find_timing(
    folder: Path, rows: Rows, summary: Mapping[str, Any], batches: int | None, args: Mapping[str, Any]
) -> Timing:
    """`batches`: of an epoch, where they were recorded."""
    clock = rows.columns.get("seconds")
    if clock is not None and np.isfinite(clock).all() and clock[-1] > 0:
        seconds = _never_back(clock)
        if rows.format == OURS:
            return _of_ours(rows, seconds, {} if args.get("resume") else summary, batches, args.get("batch_size"))
        return Timing(seconds=seconds, total=float(seconds[-1]), source="the column `time`")
    return _of_others(folder, rows)


def with_hours(timing: Timing, hours: float, epochs: int) -> Timing:
    """Told by the user."""
    return _merged(timing, _evenly(hours * 3600, epochs), hours * 3600, "--hours", evenly=True)


def _of_ours(rows: Rows, train: Floats, summary: Mapping[str, Any], batches: int | None, batch: object) -> Timing:
    wall, trained = summary.get("wall_seconds"), float(train[-1])
    whole = float(wall) if isinstance(wall, int | float) and wall >= trained else trained
    speeds, lengths = rows.columns["img/s"], np.diff(train, prepend=0.0)
    images = float(np.nansum(speeds * lengths))
    pace = images / trained
    return Timing(
        seconds=train * (whole / trained),
        total=whole,
        source="summary.json" if whole > trained else "the column `time`, training alone",
        iterations=batches,
        iterations_per_second=_pace(batches, len(rows.epoch), trained, pace, batch),
        images_per_second=pace,
        images=round(float(np.nanmedian(speeds * lengths))) if np.isfinite(speeds).any() else None,
    )


def _pace(batches: int | None, epochs: int, seconds: float, images: float | None, batch: object) -> float | None:
    if batches and seconds > 0:
        return batches * epochs / seconds
    return images / batch if images and isinstance(batch, int | float) and batch else None


def _of_others(folder: Path, rows: Rows) -> Timing:
    told, epochs = read_told(folder), len(rows.epoch)
    known = Timing(iterations=told.iterations, iterations_per_second=told.iterations_per_second)
    events = _of_events(folder, rows)
    if told.hours:
        total = told.hours * 3600 * epochs / (told.epochs or epochs)
        axis = _evenly(total, epochs) if events is None else events * (total / float(events[-1]))
        return _merged(known, axis, total, told.file, evenly=events is None)
    if events is not None:
        return _merged(known, events, float(events[-1]), "TensorBoard's clock", evenly=False)
    return known


def _of_events(folder: Path, rows: Rows) -> Floats | None:
    ended = epoch_seconds(folder)
    seconds = np.array([ended.get(number - 1, np.nan) for number in rows.epoch.tolist()])
    return _never_back(seconds) if np.isfinite(seconds).all() and seconds[-1] > 0 else None


def _merged(timing: Timing, seconds: Floats, total: float, source: str, *, evenly: bool) -> Timing:
    return Timing(
        seconds=seconds,
        total=total,
        source=source,
        evenly=evenly,
        iterations=timing.iterations,
        iterations_per_second=timing.iterations_per_second,
        images_per_second=timing.images_per_second,
        images=timing.images,
    )


def _evenly(total: float, epochs: int) -> Floats:
    return np.linspace(total / epochs, total, epochs)


def _never_back(clock: Floats) -> Floats:
    """A resumed run may count from 0 again: what it took before is added."""
    steps = np.diff(clock, prepend=0.0)
    return np.asarray(np.cumsum(np.where(steps < 0, clock, steps)))
