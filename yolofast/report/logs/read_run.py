"""What a path given to `diagnose` is: a run's folder, or one of the files that trainers leave there."""

import dataclasses
from pathlib import Path

from yolofast.errors import UserError, nearest_file
from yolofast.report.logs.history import RUN_FOLDER, Batches, Epochs, History
from yolofast.report.logs.read_csv import batches_of, last_batch_rows_of, last_rows_of, read_csv, steady_epochs_of
from yolofast.report.logs.read_loop import is_loop_log, read_loop_log
from yolofast.report.logs.read_yolov7 import read_results_txt
from yolofast.report.logs.read_yolox import read_train_log
from yolofast.runs.layout import FILES, GIVE_A_RUN, RESULT_FILES
from yolofast.runs.reader import RunFolder
from yolofast.runs.settings import settings_in_effect
from yolofast.runs.table import KINDS, read_text, refuse_binary

_MOST_RUNS = 5
_PAGES = ("<!doctype", "<html")
_SAME_IN_VALIDATION = ("anchor", "simota")


def read_history(path: Path) -> History:
    """Settings beside a log are above what the log says. What cannot be read of them is a remark."""
    if not path.exists():
        raise UserError(f"does not exist{nearest_file(path)}", where=path, fix=f"give {KINDS}")
    if path.name in (FILES.results, FILES.batches) and (path.parent / FILES.settings).exists():
        path = path.parent
    results = find_results(path) if path.is_dir() else path
    run = RunFolder(results.parent)
    if path.is_dir() and results.name == FILES.results:
        history = history_of(run)
    else:
        history = _read_file(results)
        history = dataclasses.replace(history, settings={**history.settings, **run.settings()})
    return dataclasses.replace(history, remarks=(*history.remarks, *run.problems))


def find_results(folder: Path) -> Path:
    """The file with the results of a run, whichever trainer wrote it."""
    for name in RESULT_FILES:
        if (folder / name).is_file():
            return folder / name
    if runs := sorted({path.parent for name in RESULT_FILES for path in folder.glob(f"*/{name}")}):
        some = ", ".join(str(run) for run in runs[:_MOST_RUNS]) + ", …" * (len(runs) > _MOST_RUNS)
        raise UserError("is a folder of runs and no run", where=folder, fix=f"give one of them: {some}")
    raise UserError("holds no results", where=folder, fix=GIVE_A_RUN)


def history_of(run: RunFolder) -> History:
    """Of a run with `results.csv`."""
    settings = run.settings()
    assigner = settings_in_effect(settings, {}).get("assigner", "ota")
    results, remarks = last_rows_of(run.results)
    epochs = steady_epochs_of(results)
    batches = None
    if run.batches is not None:
        rows, of_batches = last_batch_rows_of(run.batches)
        batches, remarks = batches_of(rows), remarks or of_batches
    return History(
        source=str(run.path),
        format=RUN_FOLDER,
        epochs=epochs,
        batches=batches,
        settings=settings,
        remarks=(*remarks, *_of_unfinished(batches, epochs)),
        tracking=run.tracking_and_map(),
        # The published code validates with another assigner than it trains with.
        same_loss=not settings.get("faithful") or assigner in _SAME_IN_VALIDATION,
    )


def _of_unfinished(batches: Batches | None, epochs: Epochs) -> list[str]:
    """An epoch has its row after its evaluation, and its batches before."""
    last = int(epochs.number[-1])
    count = 0 if batches is None else int((batches.epoch > last).sum())
    if not count:
        return []
    losses = f"the last {count:,} loss{'es are' if count > 1 else ' is'}"
    return [
        f"{losses} of an epoch after epoch {last} that {FILES.results} does not have: it was not finished, or not yet"
    ]


def _read_file(path: Path) -> History:
    """By what is in it rather than by its name."""
    if path.suffix.lower() in (".csv", ".tsv"):
        return read_csv(path)
    text = read_text(path)
    refuse_binary(text, path)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not first:
        raise UserError("is empty", where=path, fix=f"give {KINDS}")
    if "total_loss:" in text:
        return read_train_log(path)
    if is_loop_log(text):
        return read_loop_log(path)
    if first.lower().startswith(_PAGES):  # a log may begin with a warning of `<frozen runpy>`
        raise UserError("is a web page", where=path, fix=f"give {KINDS}")
    if path.name == FILES.yolox_log:  # without a loss yet: it says what is expected of one
        return read_train_log(path)
    return read_csv(path) if any(mark in first for mark in ",;") else read_results_txt(path)
