"""The last line of a file that a kill has cut anywhere, and files whose last line never had an end."""

import numpy as np
import pytest

from tests.report.logs.logs import falling, results_txt, train_log
from yolofast.report.diagnose.phases import find_phases
from yolofast.report.logs.read_run import read_history
from yolofast.runs.table import TORN

COUNT = 20
RATES = 1e-3 * (1 - np.arange(COUNT) / 21)


def by_epochs(columns):
    values = {"epoch": range(COUNT), "train/loss": falling(COUNT), "val/loss": 10 + falling(COUNT, 1), "lr": RATES}
    formats = {"epoch": "d", "train/loss": ".4f", "val/loss": ".4f", "lr": ".6e"}
    rows = [",".join(f"{values[name][i]:{formats[name]}}" for name in columns) for i in range(COUNT)]
    return "\n".join([",".join(columns), *rows]) + "\n"


def by_batches():
    rows = [f"{i // 2},{i},{loss:.4f},0.01,simota\n" for i, loss in enumerate(falling(COUNT))]
    return "epoch,batch,total,lr,assigner\n" + "".join(rows)


FILES = {
    "rate last": ("log.csv", by_epochs(["epoch", "train/loss", "val/loss", "lr"])),
    "validation last": ("log.csv", by_epochs(["epoch", "lr", "train/loss", "val/loss"])),
    "batches": ("log.csv", by_batches()),
    "YOLOv7": ("results.txt", results_txt(falling(COUNT), falling(COUNT, 1), np.linspace(0.1, 0.4, COUNT))),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_a_last_line_cut_anywhere_is_left_out(tmp_path, kind):
    name, text = FILES[kind]
    path = tmp_path / name
    path.write_text(text[: text.rindex("\n", 0, -1) + 1])
    before = read_history(path)
    path.write_text(text)
    whole = read_history(path)
    for end in range(text.rindex("\n", 0, -1) + 2, len(text)):
        path.write_text(text[:end])
        found = read_history(path)
        like = whole if end == len(text) - 1 else before
        for values in ("number", "train", "val", "fitness", "lr"):
            np.testing.assert_array_equal(getattr(found.epochs, values), getattr(like.epochs, values), text[end - 20 :])
        assert len(find_phases(found)) == 1
        is_begun = text[:end].split("\n")[-1].strip()  # spaces alone are no line
        assert found.remarks == ((TORN,) if like is before and is_begun else ())


@pytest.mark.parametrize(("last", "kept"), [("8.5", True), ("8", False), ("10.25", False)])
def test_a_file_made_by_hand_may_lack_its_last_line_end(tmp_path, last, kept):
    """Where the last cell is as long as all others there is nothing to doubt; otherwise one row is lost, and told."""
    (tmp_path / "log.csv").write_text(f"epoch,loss\n0,9.5\n1,9.0\n2,{last}")
    history = read_history(tmp_path / "log.csv")
    assert len(history.epochs) == 2 + kept and history.remarks == (() if kept else (TORN,))


def test_an_only_row_is_kept(tmp_path):
    (tmp_path / "log.csv").write_text("epoch,loss\n0,9.5")
    assert read_history(tmp_path / "log.csv").epochs.train.tolist() == [9.5]


LOOPS = {
    "epochs on lines of their own": "Epoch {epoch}/5\niter {i}/20 - loss: {loss:.4f}, iou: 2.1, l1: 0, conf: 2, "
    "cls: 0.7, lr: {lr:.6f}\n",
    "epochs before the losses": "Epoch {epoch}/5, iter {i}/20 - loss: {loss:.4f}, 2.1, 0.0, 2.0, 0.7, {lr:.3e}\n",
    "totals alone": "Epoch {epoch}/5, iter {i}/20 - loss: {loss:.4f}\n",
}


def loop(line, epochs, level):
    return "".join(
        line.format(epoch=epoch, i=i, loss=level - epoch / 10, lr=5e-4 * (1 - epoch / 10))
        for epoch in range(1, epochs + 1)
        for i in (10, 20)
    )


@pytest.mark.slow
@pytest.mark.parametrize("line", LOOPS.values(), ids=LOOPS)
def test_a_run_that_begins_within_a_torn_line_of_a_loop(tmp_path, line):
    """Nothing of the earlier run is left, wherever its last line was torn."""
    path, again = tmp_path / "log.txt", loop(line, 5, 5)
    path.write_text(again)
    alone = read_history(path).batches
    first = loop(line, 3, 9)
    for end in range(first.rindex("\n", 0, -1) + 2, len(first)):
        path.write_text(first[:end] + again)
        history = read_history(path)
        assert history.batches.loss.tolist() == alone.loss.tolist(), first[end - 20 : end]
        np.testing.assert_array_equal(history.batches.lr, alone.lr)
        assert "the log holds 2 runs" in history.remarks[0]


@pytest.mark.parametrize("line", LOOPS.values(), ids=LOOPS)
def test_a_last_line_of_a_loop_cut_anywhere_is_left_out(tmp_path, line):
    path, text = tmp_path / "log.txt", loop(line, 3, 9)
    path.write_text(text)
    losses, rates = (set(getattr(read_history(path).batches, name).tolist()) for name in ("loss", "lr"))
    for end in range(text.rindex("Epoch"), len(text)):
        path.write_text(text[:end])
        batches = read_history(path).batches
        assert len(batches) == 5 + (end == len(text) - 1) and set(batches.loss.tolist()) <= losses, text[end - 20 : end]
        assert np.isnan(batches.lr).all() or set(batches.lr.tolist()) <= rates


def test_a_loop_may_name_its_epochs_behind_the_losses(tmp_path):
    lines = [f"iter {i}/20 - loss: {5 - epoch}, epoch {epoch}\n" for epoch in (1, 2, 3) for i in (10, 20)]
    (tmp_path / "log.txt").write_text("".join(lines))
    assert read_history(tmp_path / "log.txt").epochs.train.tolist() == [4, 3, 2]


def yolox_log(epochs):
    return train_log(np.full(100 * epochs, 5.0), np.full(100 * epochs, 1e-3), 100, scores=np.linspace(0.1, 0.3, epochs))


@pytest.mark.slow
@pytest.mark.parametrize(
    "last", ["epoch: 3/3, iter: 100/100", " Average Precision  (AP) @[ IoU=0.50:0.95 | area= small"]
)
def test_a_last_line_of_yolox_cut_anywhere_is_reported_where_nothing_was_read_of_it(tmp_path, last):
    path, text = tmp_path / "train_log.txt", yolox_log(3)
    start = text.rindex("\n", 0, text.rindex(last)) + 1
    for end in range(start + 1, text.index("\n", start) + 2):
        path.write_text(text[:end])
        history = read_history(path)
        is_read = (len(history.batches) == 30 and last.startswith("epoch")) or text[:end].endswith("\n")
        is_begun = text[start:end].strip()
        assert (TORN in history.remarks) == bool(is_begun and not is_read), text[start:end]


def test_a_line_of_yolox_that_a_terminal_has_broken_is_not_torn(tmp_path):
    text = yolox_log(3)
    text = text[: text.rindex("ETA: 1 day, 10:23:42") + len("ETA: 1 day, 10:23:42")]
    (tmp_path / "train_log.txt").write_text("ETA: 1\nday, 10:23:42".join(text.rsplit("ETA: 1 day, 10:23:42", 1)))
    assert not read_history(tmp_path).remarks


def test_a_last_score_without_an_end_is_read(tmp_path):
    text = yolox_log(3)
    (tmp_path / "train_log.txt").write_text(text[: text.rindex("\n Average Precision")])
    history = read_history(tmp_path)
    assert np.isfinite(history.epochs.fitness[-1]) and not history.remarks


INCOMPLETE = "epoch 3 is incomplete: it ends with iteration 70, where others continued to 100"


def test_an_epoch_of_yolox_that_was_cut_short_is_reported(tmp_path):
    text = yolox_log(3)
    (tmp_path / "train_log.txt").write_text(text[: text.index("\n", text.index("epoch: 3/3, iter: 70/")) + 1])
    assert read_history(tmp_path).remarks == (INCOMPLETE,)


def test_an_epoch_of_a_loop_that_was_cut_short_is_reported(tmp_path):
    lines = [f"Epoch {epoch}, iter {i}/104 - loss: 5.0\n" for epoch in (1, 2, 3) for i in range(10, 101, 10)]
    (tmp_path / "log.txt").write_text("".join(lines[:-3]))
    assert read_history(tmp_path / "log.txt").remarks == (INCOMPLETE,)


def test_an_epoch_of_a_run_resumed_with_larger_batches_is_complete(tmp_path):
    """It has fewer iterations than those before, and says so itself."""
    before = yolox_log(2)
    after = yolox_log(4)[len(before) :].replace("/100", "/50")
    lines = [line for line in after.splitlines(True) if not any(f"iter: {n}/50" in line for n in (60, 70, 80, 90, 100))]
    (tmp_path / "train_log.txt").write_text(before + "".join(lines))
    history = read_history(tmp_path)
    assert history.epochs.number[-1] == 4 and not [text for text in history.remarks if "incomplete" in text]


def test_lines_by_the_iterations_of_the_whole_run_do_not_make_an_epoch_incomplete(tmp_path):
    """Every fiftieth of all: in epochs of 120 the last one is now the 100th, now the 80th."""
    lines = [f"Epoch {i // 120 + 1}, iter {i % 120}/120 - loss: 5.0\n" for i in range(50, 240, 50)]
    (tmp_path / "log.txt").write_text("".join(lines))
    assert not read_history(tmp_path / "log.txt").remarks


def test_losses_of_an_epoch_that_has_no_row_are_reported(tmp_path):
    (tmp_path / "results.csv").write_text("epoch,train/loss\n" + "".join(f"{i},5\n" for i in range(5)))
    rows = "".join(f"{i // 7},{i % 7},5,0.01\n" for i in range(42))
    (tmp_path / "batches.csv").write_text("epoch,batch,total,lr\n" + rows)
    (tmp_path / "args.yaml").write_text("epochs: 6\n")
    (remark,) = read_history(tmp_path).remarks
    assert remark.startswith("the last 7 losses are of an epoch after epoch 5 that results.csv does not have")
