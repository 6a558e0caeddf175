"""The rows of a run's results by common names, from CSV files of several trainers, YOLOv7's and YOLOX's logs."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from yolofast.report.compare.compared_run import MAP, MAP50, OTHER, OURS, PRECISION, RECALL, ULTRALYTICS, YOLOV7, YOLOX
from yolofast.report.logs.history import Floats, Ints
from yolofast.report.logs.read_csv import RATE_NAMES, epochs_of_columns, last_rows_of, names_of
from yolofast.report.logs.read_run import find_results
from yolofast.report.logs.read_yolov7 import read_table
from yolofast.report.logs.read_yolox import read_scores, read_train_log
from yolofast.runs import layout
from yolofast.runs.layout import FILES
from yolofast.runs.reader import RunFolder
from yolofast.runs.table import Columns

_OTHER_COLUMNS = {
    "lr": RATE_NAMES,
    "memory": (layout.MEMORY.name,),
    layout.WAIT.name: (layout.WAIT.name,),
    layout.SPEED.name: (layout.SPEED.name,),
    "seconds": (layout.TIME.name,),
}


@dataclass(frozen=True)
class Rows:
    """`columns` hold one value per epoch; nan is what is unknown or beyond all bounds.

    A torn row at the end is left out; of a repeated epoch the last row counts, of several runs the last one.
    """

    format: str
    epoch: Ints
    columns: dict[str, Floats]
    remarks: tuple[str, ...] = ()
    """What has to be said of runs before the last."""


def read_rows(run: RunFolder) -> Rows:
    path, readers = find_results(run.path), {FILES.yolov7_results: _of_yolov7, FILES.yolox_log: _of_yolox}
    rows = readers[path.name](path) if path.name in readers else _of_table(run.results)
    last = {number: place for place, number in enumerate(rows.epoch.tolist())}
    order = np.array([last[number] for number in sorted(last)])
    columns = {name: np.where(np.isfinite(values), values, np.nan)[order] for name, values in rows.columns.items()}
    return Rows(rows.format, rows.epoch[order], columns, rows.remarks)


def _of_table(table: Columns) -> Rows:
    table, remarks = last_rows_of(table)
    epochs = epochs_of_columns(table)
    named = {metric.title: names_of(metric) for metric in (*layout.metrics(), *layout.MOTION_METRICS)} | _OTHER_COLUMNS
    columns = {name: values for name, names in named.items() if (values := table.first_of(names)) is not None}
    for side, pattern in (("train", layout.TRAIN_LOSS), ("val", layout.VAL_LOSS)):
        for name in table.text:
            if (term := pattern.term_in(name)) is not None:
                columns[f"{side}/{term}"] = table.numbers(name)
    columns |= {"train/total": epochs.train, "val/total": epochs.val}
    if layout.SPEED.name in table:
        return Rows(OURS, epochs.number, columns, remarks)
    return Rows(ULTRALYTICS if layout.MAP50.name in table else OTHER, epochs.number, columns, remarks)


def _of_yolov7(path: Path) -> Rows:
    numbers, table, remarks = read_table(path)
    fields = ("memory", "train/box", "train/obj", "train/cls", "train/total", "", "", PRECISION, RECALL, MAP50, MAP)
    columns = {name: table[:, place] for place, name in enumerate(fields, start=1) if name}
    columns |= {f"val/{term}": table[:, place] for place, term in enumerate(("box", "obj", "cls"), start=12)}
    columns["val/total"] = table[:, 12:15].sum(axis=1)
    skipped = (table[:, 8:15] == 0).all(axis=1)  # it was not evaluated
    for name in (PRECISION, RECALL, MAP50, MAP, "val/box", "val/obj", "val/cls", "val/total"):
        columns[name] = np.where(skipped, np.nan, columns[name])
    return Rows(YOLOV7, numbers, columns, remarks)


def _of_yolox(path: Path) -> Rows:
    history, scores = read_train_log(path), read_scores(path)
    epochs = history.epochs
    columns = {"train/total": epochs.train, "lr": epochs.lr}
    for name in (MAP50, MAP):
        columns[name] = np.array([scores.get(number, {}).get(name, np.nan) for number in epochs.number.tolist()])
    return Rows(YOLOX, epochs.number, columns, history.remarks)
