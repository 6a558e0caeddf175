"""A path given to `compare` -> a `ComparedRun`. Only the results are required."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from yolofast.errors import UserError, nearest_file
from yolofast.report.compare.compared_run import MAP, ComparedRun
from yolofast.report.compare.hours import find_timing
from yolofast.report.compare.read_rows import RESULTS_TXT, TRAIN_LOG, Rows, read_rows
from yolofast.report.compare.words import printable
from yolofast.report.logs.read_csv import last_batch_rows_of
from yolofast.runs.layout import EPOCH, FILES, SPEED
from yolofast.runs.reader import RunFolder
from yolofast.runs.tracking import Agreement, agreement

_NOT_CURVES = ("seconds", SPEED.name)


def read_runs(paths: Sequence[str], names: Sequence[str] = ()) -> list[ComparedRun]:
    """In the order given; a name each, or the shortest end of its path that is its own."""
    folders = [_folder(Path(path)) for path in paths]
    _refuse_same_twice(folders)
    if names and len(names) != len(folders):
        raise UserError(f"--names has {len(names)} names for {len(folders)} runs", fix="give one for each run")
    if len(set(names)) < len(names):
        raise UserError("--names has a name twice", fix="give every run a name of its own")
    return [read_run(folder, name) for folder, name in zip(folders, names or short_names(folders), strict=True)]


def read_run(folder: Path, name: str) -> ComparedRun:
    rows, files = read_rows(folder), RunFolder(folder)
    problems = files.problems
    problems += rows.remarks
    args, hyp = files.tidy_flags(), files.tidy_hyp()
    summary = files.summary_of(len(rows.epoch))
    batches, assigners = _of_batches(files)
    return ComparedRun(
        name=printable(name),
        folder=folder,
        format=rows.format,
        epoch=rows.epoch,
        columns={key: values for key, values in rows.columns.items() if key not in _NOT_CURVES},
        args=args,
        hyp=hyp,
        environment=files.environment,
        timing=find_timing(rows, summary, batches, args),
        summary=summary,
        classes=files.classes(),
        classes_epoch=files.classes_epoch(),
        validated=files.validated(),
        profile=files.step_profile(),
        tracking=_tracking(files, rows),
        assigners=assigners,
        problems=tuple(problems),
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
    if path.is_file() and path.name in (FILES.results, RESULTS_TXT, TRAIN_LOG):
        return path.parent
    if path.exists():
        raise UserError("is neither a run's folder nor its results", where=path, fix="give the folder of the run")
    raise UserError(f"does not exist{nearest_file(path)}", where=path, fix="give the folder of a run")


def _refuse_same_twice(folders: Sequence[Path]) -> None:
    seen: dict[Path, Path] = {}
    for folder in folders:
        if (place := folder.resolve()) in seen:
            raise UserError("is given twice", where=folder, fix="give each run once")
        seen[place] = folder


def _tracking(files: RunFolder, rows: Rows) -> Agreement | None:
    tracked = files.tracking
    maps = rows.columns.get(MAP, np.full(len(rows.epoch), np.nan))
    return None if tracked is None else agreement(tracked, rows.epoch.tolist(), maps.tolist())


def _of_batches(files: RunFolder) -> tuple[int | None, tuple[str, ...]]:
    """Batches of an epoch, and the assigners that were used, in order; of the last run where several were written."""
    if files.batches is None:
        return None, ()
    problems = files.problems
    try:
        table, remarks = last_batch_rows_of(files.batches)
        epochs = table.numbers(EPOCH.name) if EPOCH.name in table else np.zeros(0)
    except UserError as error:
        problems.append(f"{FILES.batches} {error.what}")
        return None, ()
    told = [remark for remark in remarks if remark not in problems]  # the results may say the same
    problems += [f"{FILES.batches}: {remark}" for remark in told]
    assigners = tuple(dict.fromkeys(name for name in table.text.get("assigner", ()) if name))
    counts = np.unique(epochs[np.isfinite(epochs)], return_counts=True)[1]
    return (int(np.median(counts)) if len(counts) else None), assigners
