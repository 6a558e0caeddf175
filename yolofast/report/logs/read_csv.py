"""CSV files of losses: our `results.csv` and `batches.csv`, and those of others, by the names their columns have."""

import dataclasses
from itertools import compress
from pathlib import Path

import numpy as np

from yolofast.errors import UserError
from yolofast.report.logs.history import CONTENTS, Batches, Epochs, Floats, History, Ints, epochs_of
from yolofast.report.logs.last_start import each_once, of_last_run, without_late_terms
from yolofast.runs import layout
from yolofast.runs.layout import MAP, MAP50, TRAIN_LOSS, VAL_LOSS, Column
from yolofast.runs.table import Columns, read_columns

MOST_EPOCHS = 10**7
_BATCH = ("batch", "iter", "iteration", "step", "global_step")
_TRAIN = ("train/loss", "train_loss", "total_loss", TRAIN_LOSS.of_term("total"), "total", "loss")
_VAL = ("val/loss", "val_loss", VAL_LOSS.of_term("total"), "valid_loss", "test_loss")
RATE_NAMES = (layout.RATES[0].name, "lr", "x/lr0", "learning_rate")
_OF_OTHERS = {
    layout.PRECISION.name: ("metrics/precision", "precision", "P"),
    layout.RECALL.name: ("metrics/recall", "recall", "R"),
    MAP50.name: ("metrics/mAP_0.5", "metrics/mAP50", "mAP50", "map50", "AP50"),
    MAP.name: ("metrics/mAP_0.5:0.95", "metrics/mAP50-95", "mAP50-95", "mAP", "map", "AP"),
}
"""What other trainers call our columns."""


def names_of(metric: Column) -> tuple[str, ...]:
    """Of its column, in files of ours and of others."""
    return (metric.name, *_OF_OTHERS.get(metric.name, ()))


def read_csv(path: Path) -> History:
    columns = read_columns(path)
    batch = _batch_column(columns)
    if batch is None:
        columns, remarks = last_rows_of(columns)
        epochs = steady_epochs_of(columns)
        return History(source=str(path), format="CSV, a row per epoch", epochs=epochs, remarks=remarks)
    if "epoch" in columns:
        columns, remarks = last_batch_rows_of(columns)
        batches = batches_of(columns)
        epochs = epochs_of(batches)
    else:
        batches, remarks = _last_iterations_of(columns, batch)
        epochs = dataclasses.replace(epochs_of(batches), unit="part")
    return History(source=str(path), format="CSV, a row per batch", epochs=epochs, batches=batches, remarks=remarks)


def last_rows_of(columns: Columns) -> tuple[Columns, tuple[str, ...]]:
    """The rows of the last run in a table with epochs, and what has to be said of others."""
    batch = _batch_column(columns)
    losses = [name for name in columns.text if name in _TRAIN or name.startswith("train/")]
    last, remarks = of_last_run(columns, losses, *(("epoch",) if batch is None else ("epoch", batch)))
    return last, (*columns.remarks, *remarks)


def last_batch_rows_of(columns: Columns) -> tuple[Columns, tuple[str, ...]]:
    """As `last_rows_of`, of a table with a row per batch: each of them once."""
    batch = _batch_column(columns)
    columns, remarks = last_rows_of(columns)
    return (columns if batch is None else each_once(columns, "epoch", batch)), remarks


def _last_iterations_of(columns: Columns, batch: str) -> tuple[Batches, tuple[str, ...]]:
    """As `last_batch_rows_of`, of a table without epochs; rows without a loss would be counted as iterations."""
    if (cells := next((columns.text[name] for name in _TRAIN if name in columns), None)) is not None:
        text = {name: list(compress(values, cells)) for name, values in columns.text.items()}
        columns = dataclasses.replace(columns, text=text)
    last, remarks = of_last_run(columns, [batch], batch)
    batches = batches_of(each_once(last, batch) if remarks else last)
    parts = f"no column says epochs: rows are counted in {batches.epoch[-1]} equal parts"
    return batches, (*columns.remarks, *remarks, f"{parts} (rows: {len(batches):,})")


def _batch_column(columns: Columns) -> str | None:
    return next((name for name in _BATCH if name in columns), None)


def steady_epochs_of(columns: Columns) -> Epochs:
    """With totals that can be compared from epoch to epoch, in the order of their numbers."""
    epochs = epochs_of_columns(without_late_terms(each_once(columns, "epoch")))
    order = np.argsort(epochs.number, kind="stable")
    values = {name: getattr(epochs, name)[order] for name in ("number", "train", "val", "fitness", "lr")}
    return dataclasses.replace(epochs, **values)


def epochs_of_columns(columns: Columns) -> Epochs:
    """Total losses are the sums of their terms where no column says them."""
    train = _total(columns, _TRAIN, TRAIN_LOSS)
    if train is None:
        known = ", ".join(list(columns.text)[:20])
        fix = "name the column of the loss train/loss, loss or train/…_loss"
        raise UserError(f"no column is a training loss: {known}", where=columns.path, line=1, fix=fix)
    unknown = np.full(len(columns), np.nan)
    val, lr = _total(columns, _VAL, VAL_LOSS), columns.first_of(RATE_NAMES)
    good, score = _scores(columns)
    return Epochs(
        number=_numbers_from_one(columns),
        train=train,
        val=unknown if val is None else val,
        fitness=good,
        lr=unknown if lr is None else lr,
        score=score,
    )


def batches_of(columns: Columns) -> Batches:
    loss = columns.first_of(_TRAIN, losses=True)
    if loss is None:
        raise UserError("no column is a loss", where=columns.path, line=1, fix="name it loss or total_loss")
    if np.isnan(loss).all():
        raise UserError("no row has a loss", where=columns.path, fix="give a file with a loss per batch")
    lr, unknown = columns.first_of(RATE_NAMES), np.full(len(columns), np.nan)
    epoch = _numbers_from_one(columns) if "epoch" in columns else _parts(len(columns))
    order = np.argsort(epoch, kind="stable")
    order = order[~np.isnan(loss[order])]
    names = ("l1", "gradient_norm", "trainable", *CONTENTS)
    given = {name: columns.numbers(name)[order] for name in names if name in columns}
    batch, first = _batch_column(columns), int(order[0])
    return Batches(
        epoch=epoch[order],
        loss=loss[order],
        lr=(unknown if lr is None else lr)[order],
        contents={name: given[name] for name in CONTENTS if name in given and np.isfinite(given[name]).all()},
        assigner=tuple(columns.text["assigner"][i] for i in order) if "assigner" in columns else (),
        l1=given.get("l1"),
        gradient_norm=given.get("gradient_norm"),
        trainable=given.get("trainable"),
        from_the_first=batch is not None and epoch[first] == 1 and bool(columns.numbers(batch)[first] in (0, 1)),
    )


def _scores(columns: Columns) -> tuple[Floats, str]:
    """Of each epoch, and what they are: a column without a number is as good as none."""
    found = [
        next((name for name in names_of(one) if name in columns and np.isfinite(columns.numbers(name)).any()), None)
        for one in (MAP, MAP50)
    ]
    mean, at_half = (None if name is None else columns.numbers(name) for name in found)
    known = [name for name in found if name is not None]
    return fitness_of(mean, at_half, len(columns)), known[0] if len(known) == 1 else layout.FITNESS_WORDS


def fitness_of(mean: Floats | None, at_half: Floats | None, count: int) -> Floats:
    """Where a file has one of the two scores, that one."""
    if mean is None or at_half is None:
        only = mean if mean is not None else at_half
        return np.full(count, np.nan) if only is None else only
    return layout.fitness(at_half, mean)


def _total(columns: Columns, names: tuple[str, ...], pattern: Column) -> Floats | None:
    if (total := columns.first_of(names, losses=True)) is not None:
        return total
    terms = [name for name in columns.text if pattern.term_in(name) is not None]
    return None if not terms else np.sum([columns.losses(name) for name in terms], axis=0)


def _numbers_from_one(columns: Columns) -> Ints:
    if "epoch" not in columns:
        return np.arange(1, len(columns) + 1)
    given = columns.numbers("epoch")
    if not np.isfinite(given).all() or (given < 0).any() or (given > MOST_EPOCHS).any():
        raise UserError("an epoch has no number", where=columns.path, fix="number the epochs from 0 or 1")
    return np.asarray(given.astype(np.int64) + (1 if given.min() < 1 else 0))


def _parts(count: int, most: int = 100) -> Ints:
    """Batches of nobody knows which epoch: in up to a hundred equal parts."""
    return np.arange(count) * min(most, max(count // 10, 1)) // count + 1
