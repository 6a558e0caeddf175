"""A path given to `compare` -> a `ComparedRun`. Only the results are required.

Our `time` counts training alone, but the GPU is paid for while it evaluates as well. So the hours of `summary.json`
are spread over the epochs in proportion, where they are of the whole run. Those of a resumed run are of its last
process, which may be longer than all training and still not the whole.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.errors import UserError, nearest_file
from yolofast.files.known_numbers import known_number
from yolofast.report.compare.compared_run import MAP, OURS, ComparedRun, RunHours, as_batch
from yolofast.report.compare.read_rows import Rows, read_rows
from yolofast.report.compare.words import printable
from yolofast.report.logs.history import Floats
from yolofast.report.logs.read_csv import last_batch_rows_of
from yolofast.runs.layout import EPOCH, FILES, RESULT_FILES, SPEED
from yolofast.runs.reader import RunFolder
from yolofast.runs.tracking import Agreement, agreement

_NOT_CURVES = ("seconds", SPEED.name)
_SHORTEST, _LONGEST = 1e-6, 1e12
"""Seconds that a run can have taken. Others are not known: how often one goes into the other would overflow."""


def read_runs(paths: Sequence[str], names: Sequence[str] = ()) -> list[ComparedRun]:
    """In the order given; a name each, or the shortest end of its path that is its own."""
    folders = [_folder(Path(path)) for path in paths]
    for place, folder in enumerate(folders):
        if folder.resolve() in [before.resolve() for before in folders[:place]]:
            raise UserError("is given twice", where=folder, fix="give each run once")
    if names and len(names) != len(folders):
        raise UserError(f"--names has {len(names)} names for {len(folders)} runs", fix="give one for each run")
    if len(set(names)) < len(names):
        raise UserError("--names has a name twice", fix="give every run a name of its own")
    return [read_run(folder, name) for folder, name in zip(folders, names or short_names(folders), strict=True)]


def read_run(folder: Path, name: str) -> ComparedRun:
    run = RunFolder(folder)
    rows = read_rows(run)
    run.problems += rows.remarks
    args, hyp, summary = run.tidy_flags(), run.tidy_hyp(), run.summary_of(len(rows.epoch))
    batches, assigners = _of_batches(run)
    return ComparedRun(
        name=printable(name),
        folder=folder,
        format=rows.format,
        epoch=rows.epoch,
        columns={key: values for key, values in rows.columns.items() if key not in _NOT_CURVES},
        args=args,
        hyp=hyp,
        environment=run.environment,
        timing=find_timing(rows, summary, batches, args),
        summary=summary,
        classes=run.classes(),
        classes_epoch=run.classes_epoch(),
        validated=run.validated(),
        profile=run.step_profile(),
        tracking=_tracking(run, rows),
        assigners=assigners,
        problems=tuple(run.problems),
    )


def short_names(folders: Sequence[Path]) -> list[str]:
    """The last part of each path; with those before it where that is not enough to tell them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [str(folder.resolve()) for folder in folders]


def _folder(path: Path) -> Path:
    if path.is_dir():
        return path
    if path.is_file() and path.name in RESULT_FILES:
        return path.parent
    if path.exists():
        raise UserError("is neither a run's folder nor its results", where=path, fix="give the folder of the run")
    raise UserError(f"does not exist{nearest_file(path)}", where=path, fix="give the folder of a run")


def _tracking(run: RunFolder, rows: Rows) -> Agreement | None:
    tracked = run.tracking
    maps = rows.columns.get(MAP, np.full(len(rows.epoch), np.nan))
    return None if tracked is None else agreement(tracked, rows.epoch.tolist(), maps.tolist())


def _of_batches(run: RunFolder) -> tuple[int | None, tuple[str, ...]]:
    """Batches of an epoch, and the assigners that were used, in order; of the last run where several were written."""
    if run.batches is None:
        return None, ()
    try:
        table, remarks = last_batch_rows_of(run.batches)
        epochs = table.numbers(EPOCH.name) if EPOCH.name in table else np.zeros(0)
    except UserError as error:
        run.problems.append(f"{FILES.batches} {error.what}")
        return None, ()
    # The results may say the same.
    run.problems += [f"{FILES.batches}: {remark}" for remark in remarks if remark not in run.problems]
    assigners = tuple(dict.fromkeys(name for name in table.text.get("assigner", ()) if name))
    counts = np.unique(epochs[np.isfinite(epochs)], return_counts=True)[1]
    return (int(np.median(counts)) if len(counts) else None), assigners


def find_timing(rows: Rows, summary: Mapping[str, Any], batches: int | None, args: Mapping[str, Any]) -> RunHours:
    """`batches`: of an epoch, where they were recorded."""
    clock = rows.columns.get("seconds", np.full(len(rows.epoch), np.nan))
    steps = np.diff(clock, prepend=0.0)
    # A resumed run may count from 0 again: what it took before is added.
    seconds = np.asarray(np.cumsum(np.where(steps < 0, clock, steps)))
    if not np.isfinite(seconds).all() or not _SHORTEST <= seconds[-1] <= _LONGEST:
        return RunHours()
    if rows.format == OURS:
        return _of_ours(rows, seconds, {} if args.get("resume") else summary, batches, args.get("batch_size"))
    return RunHours(seconds=seconds, total=float(seconds[-1]), source="the column `time`")


def _of_ours(rows: Rows, train: Floats, summary: Mapping[str, Any], batches: int | None, batch: object) -> RunHours:
    wall, trained = known_number(summary.get("wall_seconds")), float(train[-1])
    whole = wall if wall is not None and trained <= wall <= _LONGEST else trained
    speeds, lengths = rows.columns[SPEED.name], np.diff(train, prepend=0.0)
    pace = float(np.nansum(speeds * lengths)) / trained
    size = as_batch(batch)
    by_images = pace / size if pace and size is not None else None
    return RunHours(
        seconds=train * (whole / trained),
        total=whole,
        source=FILES.summary if whole > trained else "the column `time`, training alone",
        iterations=batches,
        iterations_per_second=batches * len(rows.epoch) / trained if batches else by_images,
        images_per_second=pace,
        images=round(float(np.nanmedian(speeds * lengths))) if np.isfinite(speeds).any() else None,
    )
