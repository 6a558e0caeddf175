"""What a path given to `diagnose` is: a run's folder, or one of the files that trainers leave there."""

import dataclasses
from pathlib import Path
from typing import Any

from yolofast.errors import UserError, nearest_file
from yolofast.files.yaml_file import read_yaml
from yolofast.report.logs.history import RUN_FOLDER, Batches, Epochs, History
from yolofast.report.logs.read_csv import last_batches_of, last_rows_of, read_csv, steady_epochs_of
from yolofast.report.logs.read_loop import is_loop_log, read_loop_log
from yolofast.report.logs.read_yolov7 import read_results_txt
from yolofast.report.logs.read_yolox import read_train_log
from yolofast.runs.layout import FILES
from yolofast.runs.reader import RunFolder
from yolofast.runs.settings import SETTINGS_FILES, settings_in_effect
from yolofast.runs.table import KINDS, read_columns, read_text, refuse_binary

RESULTS_TXT, TRAIN_LOG = "results.txt", "train_log.txt"
_MOST_RUNS = 5
_PAGES = ("<!doctype", "<html")
_SAME_IN_VALIDATION = ("anchor", "simota")


def read_history(path: Path) -> History:
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise UserError(f"does not exist{nearest_file(path)}", where=path, fix=f"give {KINDS}")
    if path.name in (FILES.results, FILES.batches) and (path.parent / FILES.settings).exists():
        return _read_folder(path.parent)
    return _with_settings(_read_file(path), path.parent)


def _read_folder(folder: Path) -> History:
    if (folder / FILES.results).is_file():
        return _read_own(folder)
    for name in (RESULTS_TXT, TRAIN_LOG):
        if (folder / name).is_file():
            return _with_settings(_read_file(folder / name), folder)
    names = (FILES.results, RESULTS_TXT, TRAIN_LOG)
    if runs := sorted({path.parent for name in names for path in folder.glob(f"*/{name}")}):
        some = ", ".join(str(run) for run in runs[:_MOST_RUNS]) + ", …" * (len(runs) > _MOST_RUNS)
        raise UserError("is a folder of runs and no run", where=folder, fix=f"give one of them: {some}")
    fix = f"give the folder of a run that has finished an epoch: it has {FILES.results}, {RESULTS_TXT} or {TRAIN_LOG}"
    raise UserError("holds no results", where=folder, fix=fix)


def _with_settings(history: History, folder: Path) -> History:
    """Files beside a log are above what the log says."""
    return dataclasses.replace(history, settings={**history.settings, **_settings(folder)})


def _read_own(folder: Path) -> History:
    settings = _settings(folder)
    assigner = settings_in_effect(settings, {}).get("assigner", "ota")
    results, remarks = last_rows_of(read_columns(folder / FILES.results))
    epochs = steady_epochs_of(results)
    recorded = folder / FILES.batches
    batches, of_batches = last_batches_of(read_columns(recorded)) if recorded.is_file() else (None, ())
    files = RunFolder(folder)
    tracking = files.tracking_and_map()
    return History(
        source=str(folder),
        format=RUN_FOLDER,
        epochs=epochs,
        batches=batches,
        settings=settings,
        remarks=(*(remarks or of_batches), *_of_unfinished(batches, epochs), *files.problems),
        tracking=tracking,
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
    if path.name == TRAIN_LOG:  # without a loss yet: it says what is expected of one
        return read_train_log(path)
    return read_csv(path) if any(mark in first for mark in ",;") else read_results_txt(path)


def _settings(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in SETTINGS_FILES:
        if (folder / name).is_file():
            given = {str(key): value for key, value in read_yaml(folder / name).values.items() if value is not None}
            if values.get("multi_scale"):  # a flag that is off leaves a recipe's multi-scale training on
                given["multi_scale"] = True
            values |= given
    return values
