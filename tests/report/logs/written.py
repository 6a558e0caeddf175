"""Made-up runs as the files that trainers leave: what a format does not hold is lost, as it is in life."""

import numpy as np

from tests.report.logs.logs import results_txt, train_log

BATCH_COLUMNS = ("mosaic", "mixup", "boxes", "box_size")


def _lines(heading, *columns):
    rows = (",".join(f"{value:.6g}" for value in row) for row in zip(*columns, strict=True))
    return "\n".join([heading, *rows]) + "\n"


def run_folder(history, folder):
    """Our own: everything, batch by batch."""
    epochs, batches = history.epochs, history.batches
    results = (epochs.number - 1, epochs.train, epochs.val, 1.5 * epochs.fitness, epochs.fitness, epochs.lr)
    heading = "epoch,train/box_loss,val/box_loss,metrics/mAP50(B),metrics/mAP50-95(B),lr/pg0"
    (folder / "results.csv").write_text(_lines(heading, *results))
    within = np.concatenate([np.arange(count) for count in np.bincount(batches.epoch)[1:]])
    held = [batches.contents[name] for name in BATCH_COLUMNS]
    heading = ",".join(("epoch", "batch", "total", "lr", *BATCH_COLUMNS))
    (folder / "batches.csv").write_text(_lines(heading, batches.epoch - 1, within, batches.loss, batches.lr, *held))
    (folder / "args.yaml").write_text(f"epochs: {len(epochs)}\n")
    return folder


def yolov7(history, folder):
    """An epoch a line, four digits, no learning rates."""
    epochs = history.epochs
    (folder / "results.txt").write_text(results_txt(epochs.train, epochs.val, epochs.fitness))
    return folder / "results.txt"


def yolox(history, folder):
    """Every fifth batch, one digit behind the point, no validation loss."""
    batches = history.batches
    per_epoch = len(batches) // len(history.epochs)
    log = train_log(batches.loss, batches.lr, per_epoch, every=5, scores=history.epochs.fitness)
    (folder / "train_log.txt").write_text(log)
    return folder / "train_log.txt"


def csv_of_batches(history, folder):
    batches = history.batches
    rows = _lines("epoch,iter,loss,lr", batches.epoch, np.arange(len(batches)), batches.loss, batches.lr)
    (folder / "batches_of_someone.csv").write_text(rows)
    return folder / "batches_of_someone.csv"


def csv_of_epochs(history, folder):
    epochs = history.epochs
    rows = _lines("epoch,loss,val_loss,mAP,lr", epochs.number, epochs.train, epochs.val, epochs.fitness, epochs.lr)
    (folder / "epochs_of_someone.csv").write_text(rows)
    return folder / "epochs_of_someone.csv"


FORMATS = (run_folder, yolov7, yolox, csv_of_batches, csv_of_epochs)
