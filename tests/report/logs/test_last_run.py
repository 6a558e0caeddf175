"""A log that was appended to is read as its last run; one that was resumed as a whole."""

import numpy as np
import pytest

from tests.report.logs.logs import results_txt, train_log
from yolofast.report.compare.read_rows import read_rows
from yolofast.report.diagnose.diagnosis import diagnose
from yolofast.report.logs.last_start import last_run
from yolofast.report.logs.read_run import read_history
from yolofast.report.logs.read_yolox import read_scores
from yolofast.runs.reader import RunFolder


@pytest.mark.parametrize(
    ("epochs", "first", "remark"),
    [
        ([1, 1, 2, 2, 3], 0, None),
        (
            [1, 2, 3, 1, 2],
            3,
            "the log holds 2 runs, and the last one is read: after epoch 3 it begins with epoch 1 again",
        ),
        ([1, 2, 1, 2, 3, 1], 5, "the log holds 3 runs"),
        ([11, 12, 1, 2], 2, "the log holds 2 runs"),
        ([1, 2, 3, 3, 3], 0, None),
        ([1, 2, 3, 2, 3, 4], 0, "continued with epoch 2 after epoch 3: of epochs it repeated the last ones are read"),
        ([1, 2, 3, 4, 2, 3], 0, "the last ones are read; what comes after epoch 3 is of before"),
    ],
)
def test_which_lines_are_of_the_last_run(epochs, first, remark):
    start, remarks = last_run(epochs)
    assert start == first and bool(remarks) == (remark is not None)
    assert remark is None or remark in remarks[0]


def test_a_new_run_may_be_resumed_as_well():
    start, remarks = last_run([1, 2, 3, 4, 5, 1, 2, 3, 2])
    assert start == 5 and len(remarks) == 2 and "after epoch 2 is of before" in remarks[1]


@pytest.mark.parametrize(
    ("lines", "first", "remark"),
    [
        ([(1, 10), (1, 20), (1, 10), (1, 20), (2, 10)], 2, "2 runs, and the last one is read: after epoch 1 it begins"),
        ([(1, 10), (2, 10), (2, 20), (2, 10), (3, 10)], 0, "the run continued with epoch 2 after epoch 2"),
        ([(1, 10), (1, 10), (1, 20), (1, 20), (2, 10)], 0, None),
        ([(1, 10), (1, 20), (2, 30), (2, 40)], 0, None),
    ],
    ids=["first epoch", "later epoch", "lines twice", "through all epochs"],
)
def test_iterations_that_start_again_within_an_epoch(lines, first, remark):
    start, remarks = last_run(*map(list, zip(*lines, strict=True)))
    assert start == first and bool(remarks) == (remark is not None)
    assert remark is None or remark in remarks[0]


def yolox(level, epochs, score):
    steps = 20 * epochs
    return train_log(np.full(steps, level), np.full(steps, 1e-3), 20, scores=np.full(epochs, score))


def loop(level, epochs, score):
    lines = [f"Epoch {e + 1}, iter {i}/20 - loss: {level}" for e in range(epochs) for i in (10, 20)]
    return "\n".join(lines) + "\n"


def by_epochs(level, epochs, score):
    return "\n".join(["epoch,loss"] * (level == 9) + [f"{epoch},{level}" for epoch in range(epochs)]) + "\n"


def by_batches(level, epochs, score):
    rows = [f"{epoch},{batch},{level}" for epoch in range(epochs) for batch in range(3)]
    return "\n".join(["epoch,batch,loss"] * (level == 9) + rows) + "\n"


def validated_apart(level, epochs, score):
    """Before training, as some write it."""
    rows = [f"{epoch},,{level}\n{epoch},{level}," for epoch in range(epochs)]
    return "\n".join(["epoch,loss,val_loss"] * (level == 9) + rows) + "\n"


def yolov7(level, epochs, score):
    return results_txt(*(np.full(epochs, value) for value in (level, level, score)))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("train_log.txt", yolox),
        ("log.txt", loop),
        ("results.txt", yolov7),
        ("a.csv", by_epochs),
        ("a.csv", by_batches),
        ("a.csv", validated_apart),
    ],
)
def test_a_second_run_in_a_log_is_the_one_that_is_read(tmp_path, name, write):
    (tmp_path / name).write_text(write(9.0, 30, 0.3) + write(5.0, 10, 0.2))
    history = read_history(tmp_path / name)
    assert history.epochs.number.tolist() == list(range(1, 11)) and set(history.epochs.train) == {5}
    assert set(history.epochs.val[np.isfinite(history.epochs.val)]) <= {5}
    assert "after epoch 30 it begins with epoch 1 again" in diagnose(history).remarks[0]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("train_log.txt", "epoch: {}/20, iter: {}/300, total_loss: {}, lr: 1e-3"),
        ("log.txt", "Epoch {}, iter {}/300 - loss: {}"),
        ("a.csv", "{},{},{}"),
    ],
)
def test_a_run_that_was_killed_in_its_first_epoch_is_an_earlier_one(tmp_path, name, line):
    """It came further in that epoch than the next run has iterations."""
    killed = [line.format(1, i, 90.0) for i in range(10, 901, 10)]
    lines = [line.format(epoch, i, 20.0) for epoch in range(1, 21) for i in range(10, 301, 10)]
    (tmp_path / name).write_text("\n".join(["epoch,iter,loss"] * (name == "a.csv") + killed + lines) + "\n")
    history = read_history(tmp_path / name)
    assert history.batches.loss.tolist() == [20] * 600
    assert "the log holds 2 runs" in history.remarks[0]


@pytest.mark.parametrize("heading", ["", "epoch,loss,val_loss\n"], ids=["rows alone", "with their headings"])
def test_a_folder_is_read_as_its_results_are(tmp_path, heading):
    rows = ["".join(f"{epoch},{level},6\n" for epoch in range(1, count + 1)) for level, count in ((9, 60), (5, 20))]
    (tmp_path / "results.csv").write_text("epoch,loss,val_loss\n" + heading.join(rows))
    for path in (tmp_path, tmp_path / "results.csv"):
        history = read_history(path)
        assert history.epochs.train.tolist() == [5] * 20 and "after epoch 60" in history.remarks[0]
    compared = read_rows(RunFolder(tmp_path))
    assert compared.epoch.tolist() == list(range(1, 21)) and compared.remarks == history.remarks


def test_batches_of_a_run_killed_in_its_first_epoch(tmp_path):
    """It has no results yet."""
    (tmp_path / "results.csv").write_text("epoch,loss\n0,5\n1,5\n")
    rows = [(0, 9, 30), (0, 5, 20), (1, 5, 20)]
    lines = [f"{epoch},{batch},{level}\n" for epoch, level, count in rows for batch in range(count)]
    (tmp_path / "batches.csv").write_text("epoch,batch,total\n" + "".join(lines))
    history = read_history(tmp_path)
    assert history.batches.loss.tolist() == [5] * 40 and "the log holds 2 runs" in history.remarks[0]


def test_scores_of_an_earlier_run_are_not_those_of_the_last(tmp_path):
    """The later run has evaluated nothing."""
    later = train_log(np.full(40, 5.0), np.full(40, 1e-3), 20)
    (tmp_path / "train_log.txt").write_text(yolox(9.0, 3, 0.3) + later)
    assert np.isnan(read_history(tmp_path).epochs.fitness).all() and read_scores(tmp_path / "train_log.txt") == {}


@pytest.mark.parametrize(
    "text",
    [
        "epoch,loss,val_loss\n0,5,\n1,5,\n2,5,\n0,,6\n1,,6\n2,,6\n",
        "epoch,batch,loss,val_loss\n0,0,5,6\n1,0,5,6\n2,0,5,6\n0,1,5,6\n1,1,5,6\n2,1,5,6\n",
        "epoch,loss,val_loss\n2,5,6\n0,5,6\n1,5,6\n",
    ],
    ids=["validation apart", "by batches first", "any order"],
)
def test_tables_in_another_order_are_one_run(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    history = read_history(tmp_path / "a.csv")
    assert history.epochs.train.tolist() == [5, 5, 5] and not history.remarks
    assert history.batches is not None or history.epochs.val.tolist() == [6, 6, 6]
