"""What lies in a run's folder: the names of its files, the columns of its results, and what makes an epoch the best.

Everything that writes, draws, compares or shows a run takes the names from here. A new figure per epoch is one row in
`COLUMNS`. It is then in `results.csv`, the terminal, the pictures, the report, comparisons and `yolofast watch`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class RunFileNames:
    """A `*` stands for a number."""

    settings: str = "args.yaml"
    """All settings of the run: there from the first moment on."""
    hyp: str = "hyp.yaml"
    """The hyper-parameters that ran, or YOLOX's recipe, all defaults filled in."""
    plan: str = "plan.yaml"
    images: str = "images.npz"
    """What the data set was made of when the run was last started."""
    environment: str = "env.json"
    """The machine and the versions."""
    results: str = "results.csv"
    """A row per epoch: see `COLUMNS`."""
    batches: str = "batches.csv"
    """A row per batch."""
    phases: str = "profile.csv"
    """A row per timed step."""
    profile: str = "profile.json"
    """All timed steps summed up."""
    summary: str = "summary.json"
    """Written when the run ends."""
    interrupted: str = "interrupted.json"
    """Of a run that was interrupted, until it is resumed."""
    lock: str = ".run.lock"
    """While a process trains the run, with its number and machine."""
    evaluation: str = "evaluation.json"
    """How good the best weights are, in the detail a report needs."""
    tracking: str = "tracking.json"
    """How well checkpoints of the run track: written by `tracksweep --weights`."""
    motion: str = "motion.json"
    """Of a motion model: how far off its boxes are some frames ahead, and those of other methods."""
    report: str = "report.html"
    loggers: str = "trackers.json"
    """The ids experiment loggers have given the run."""
    yolov7_results: str = "results.txt"
    """A line per epoch, written by YOLOv7."""
    yolox_log: str = "train_log.txt"
    """Written by YOLOX."""

    weights: str = "weights"
    last: str = "last.pt"
    previous: str = "last.previous.pt"
    fresh: str = "last.new.pt"
    """The last state while it is being written."""
    best: str = "best.pt"
    init: str = "init.pt"
    """The weights before the first step (`--save-init`)."""
    of_epoch: str = "epoch_*.pt"

    curves: str = "results.png"
    labels: str = "labels.jpg"
    train_batch: str = "train_batch*.jpg"
    val_batch_labels: str = "val_batch*_labels.jpg"
    val_batch_pred: str = "val_batch*_pred.jpg"
    predictions: str = "predictions.jpg"
    precision_recall_curve: str = "PR_curve.png"
    f1_curve: str = "F1_curve.png"
    precision_curve: str = "P_curve.png"
    recall_curve: str = "R_curve.png"
    confusion: str = "confusion_matrix.png"
    predictions_folder: str = "predictions"
    """A folder with a picture per epoch."""
    predictions_of_epoch: str = "epoch_*.jpg"
    samples: str = "samples"
    """A folder with the images the best weights do worst on."""
    samples_list: str = "samples.json"
    sample: str = "sample_*.jpg"


FILES = RunFileNames()
SWEEP_TRIALS, SWEEP_PAGE, SWEEP_SUMMARY = "trials.json", "sweep.html", "sweep.json"
"""Of a sweep's folder, in which its trials are runs."""
RESULT_FILES = (FILES.results, FILES.yolov7_results, FILES.yolox_log)
"""One of them has the epochs of a run, of this trainer or of another."""
GIVE_A_RUN = "give the folder of a run that has finished an epoch: it has {}, {} or {}".format(*RESULT_FILES)


def numbered(name: str, number: int, digits: int = 1) -> str:
    """The file of that number: `epoch_*.pt` -> `epoch_007.pt`."""
    return name.replace("*", f"{number:0{digits}}")


def weights_of_epoch(epoch: int) -> str:
    """Epochs counted from 1."""
    return numbered(FILES.of_epoch, epoch, 3)


Source = Literal["count", "time", "training loss", "metric", "validation loss", "rate", "speed", "memory"]
Better = Literal["higher", "lower", ""]
TERM = "{term}"
"""Stands in a column's name for a loss term: there is one such column for each term of the model family."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A figure of every epoch."""

    name: str
    """In `results.csv`."""
    title: str
    """For people: in figures and legends."""
    source: Source
    short: str = ""
    """Its heading in the terminal's line per epoch; without one it is not shown there."""
    width: int = 9
    """In that line, in characters."""
    digits: str = ".3f"
    """How the number is written there."""
    better: Better = ""
    chart: str = ""
    """The chart it is drawn in on pages, with others of that title; a metric without one has its own."""
    drawn: bool = False
    """It has a panel in the picture of the curves."""
    of: Callable[[Any], float] | None = None
    """Of a metric: its value, from the metrics of an evaluation (`evaluate.v7_metrics.V7Result`)."""

    def of_term(self, term: str) -> str:
        """The column's name for a loss term."""
        return self.name.replace(TERM, term)

    def term_in(self, name: str) -> str | None:
        """The loss term of a column with that name; None if it is another column."""
        before, _, after = self.name.partition(TERM)
        found = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", name)
        return None if found is None else found[1]


EPOCH = Column(name="epoch", title="epoch", source="count")
"""From 0, as in all tables (`*.csv`) and in YOLOv7's; pages, the display and files of JSON count from 1."""
COUNTED_FROM = "epochs_counted_from"
"""Beside an epoch in a file of JSON: 1. Files of earlier versions say 0, or nothing, and count from 0."""
TIME = Column(name="time", title="training time", source="time", better="lower")
"""Seconds of training since the start, up to the end of the epoch."""
TRAIN_LOSS = Column(name="train/{term}_loss", title="training", source="training loss", better="lower", drawn=True)
PRECISION = Column(
    name="metrics/precision(B)", title="precision", short="P", source="metric", width=8, better="higher",
    chart="Precision and recall", drawn=True, of=lambda metrics: metrics.mean_precision,
)  # fmt: skip
RECALL = Column(
    name="metrics/recall(B)", title="recall", short="R", source="metric", width=8, better="higher",
    chart="Precision and recall", drawn=True, of=lambda metrics: metrics.mean_recall,
)  # fmt: skip
MAP50 = Column(
    name="metrics/mAP50(B)", title="mAP50", short="mAP50", source="metric", width=8, better="higher",
    chart="Accuracy", drawn=True, of=lambda metrics: metrics.map50,
)  # fmt: skip
MAP = Column(
    name="metrics/mAP50-95(B)", title="mAP50-95", short="mAP", source="metric", width=8, better="higher",
    chart="Accuracy", drawn=True, of=lambda metrics: metrics.map,
)  # fmt: skip
MOTION_HORIZONS = 1, 5, 15
"""Frames after the last one seen, whose boxes a motion model is judged by."""
MOTION_METRICS = tuple(
    Column(
        name=f"metrics/IoU{frames}(M)", title=f"IoU after {frames} frame{'s' * (frames > 1)}", short=f"IoU@{frames}",
        source="metric", width=8, better="higher", chart="Overlap of predicted and true boxes", drawn=True,
    )
    for frames in MOTION_HORIZONS
)  # fmt: skip
"""Of a motion model, in place of a detector's metrics. Its best epoch has the highest mean of them."""
VAL_LOSS = Column(name="val/{term}_loss", title="validation", source="validation loss", better="lower", drawn=True)
RATES = (
    Column(
        name="lr/pg0", title="group 0", short="lr", source="rate", width=10, digits=".3g", chart="Learning rate"),
    Column(name="lr/pg1", title="group 1", source="rate", chart="Learning rate"),
    Column(name="lr/pg2", title="group 2", source="rate", chart="Learning rate"),
)  # fmt: skip
"""Of the groups of parameters, at the last batch of the epoch."""
SPEED = Column(
    name="img/s", title="img/s", short="img/s", source="speed", digits=",.0f", better="higher", chart="Speed"
)
WAIT = Column(
    name="data_wait", title="share", short="wait", source="speed", width=7, digits=".0%", better="lower",
    chart="Waiting for data",
)  # fmt: skip
"""Share of the time spent waiting for a batch."""
MEMORY = Column(
    name="gpu_memory", title="GiB", short="GPU GiB", source="memory", digits=".2f", better="lower", chart="GPU memory"
)
"""The most that was reserved; 0 on a CPU."""

COLUMNS: tuple[Column, ...] = (
    EPOCH, TIME, TRAIN_LOSS, PRECISION, RECALL, MAP50, MAP, VAL_LOSS, *RATES, SPEED, WAIT, MEMORY,
)  # fmt: skip
"""In the order of `results.csv`."""
TERMS = {
    "giou": "overlap (GIoU)",
    "box": "box",
    "obj": "objectness",
    "cls": "class",
    "dfl": "distribution",
    "l1": "raw boxes (L1)",
}
"""Titles of loss terms, also of other trainers; a term without one is shown by its name."""
_CHARTS = (MAP.chart, PRECISION.chart)
"""First on pages and in tables of figures."""
BATCH_LOSS = "total"
"""The column of `batches.csv` with the whole loss."""

FITNESS = {MAP50.name: 0.1, MAP.name: 0.9}
"""The weight of each metric in choosing the best epoch: YOLOv7's choice."""
FITNESS_WORDS = f"{FITNESS[MAP50.name]} · {MAP50.title} + {FITNESS[MAP.name]} · {MAP.title}"
Number = TypeVar("Number", float, npt.NDArray[np.float64])


def fitness(map50: Number, mean: Number) -> Number:
    """Of an epoch, or of each of many, from its mAP50 and mAP50-95."""
    return FITNESS[MAP50.name] * map50 + FITNESS[MAP.name] * mean


def motion_fitness(overlaps: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Of every epoch, the mean over the horizons that there are: in short tracks nothing is 15 frames ahead."""
    known = np.isfinite(overlaps)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, overlaps, 0.0).sum(axis=0) / known.sum(axis=0))


def best_place(values: npt.NDArray[np.float64]) -> int | None:
    """The epoch `best.pt` is from, by the fitness of every epoch; of equally good epochs training keeps the last."""
    known = np.isfinite(values)
    return int(np.flatnonzero(values == values[known].max())[-1]) if known.any() else None


def epoch_in_json(key: str, epoch: int | None) -> dict[str, int | None]:
    """What a file of JSON says of an epoch counted from 0; none is below 0, or None."""
    return {key: None if epoch is None or epoch < 0 else epoch + 1, COUNTED_FROM: 1}


def columns_from(source: Source) -> list[Column]:
    return [column for column in COLUMNS if column.source == source]


def metrics() -> list[Column]:
    """In the order of pages: those of `_CHARTS` first."""
    order = {chart: place for place, chart in enumerate(_CHARTS)}
    return sorted(columns_from("metric"), key=lambda column: order.get(column.chart, len(order)))


def metric_charts() -> dict[str, list[Column]]:
    """By the titles of the charts."""
    charts: dict[str, list[Column]] = {}
    for column in (*metrics(), *MOTION_METRICS):
        charts.setdefault(column.chart or column.title, []).append(column)
    return charts


def scores_of(found: Any) -> dict[str, float]:
    """The metrics of an evaluation by the names of their columns."""
    return {column.name: column.of(found) for column in COLUMNS if column.of is not None}


def losses_of(pattern: Column, losses: Mapping[str, Any]) -> dict[str, Any]:
    """Loss terms by the names of their columns."""
    return {pattern.of_term(term): value for term, value in losses.items()}


def terms_in(names: Iterable[str]) -> list[str]:
    """The loss terms among columns of these names, in their order."""
    found = (pattern.term_in(name) for name in names for pattern in (TRAIN_LOSS, VAL_LOSS))
    return list(dict.fromkeys(term for term in found if term is not None))


def term_title(term: str) -> str:
    return TERMS.get(term, term)


def columns_with(terms: Iterable[str], metrics: Iterable[Column] | None = None) -> list[tuple[str, Column]]:
    """Names and columns of a run whose loss has these terms, in the order of `results.csv`."""
    names, place = list(terms), COLUMNS.index(PRECISION)
    others = [column for column in COLUMNS if column.source != "metric"]
    columns = COLUMNS if metrics is None else (*others[:place], *metrics, *others[place:])
    return [(column.of_term(term), column) for column in columns for term in (names if TERM in column.name else [""])]


def columns_of(given: Iterable[str]) -> list[tuple[str, Column]]:
    """Those of a run some of whose columns have these names."""
    names = list(given)
    is_motion = any(column.name in names for column in MOTION_METRICS)
    return columns_with(terms_in(names), MOTION_METRICS if is_motion else None)
