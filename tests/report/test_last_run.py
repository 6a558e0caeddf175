"""A log that was appended to is read as its last run; one that was resumed as a whole."""

import numpy as np
import pytest

from tests.report.logs import results_txt, train_log
from yolofast.report.diagnosis import diagnose
from yolofast.report.last_run import last_run
from yolofast.report.read_run import read_history
from yolofast.report.read_yolox import read_scores


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
        ([1, 2, 3, 2, 3, 4], 0, "went on with epoch 2 after epoch 3: of epochs it repeated the last ones are read"),
        ([1, 2, 3, 4, 2, 3], 0, "the last ones are read; what comes after epoch 3 is of before"),
    ],
)
def test_which_lines_are_of_the_last_run(epochs, first, remark):
    found = last_run(epochs)
    assert found.first == first and bool(found.remarks) == (remark is not None)
    assert remark is None or remark in found.remarks[0]


def test_a_new_run_may_be_resumed_as_well():
    found = last_run([1, 2, 3, 4, 5, 1, 2, 3, 2])
    assert found.first == 5 and len(found.remarks) == 2 and "after epoch 2 is of before" in found.remarks[1]


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
