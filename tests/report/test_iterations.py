"""A log that says no epochs is told in iterations: its pieces are our own invention."""

import json

import numpy as np
import pytest

from tests.report.logs import falling
from yolofast.cli import main
from yolofast.report.as_json import as_json
from yolofast.report.diagnosis import diagnose
from yolofast.report.picture import diagnosis_picture
from yolofast.report.read_run import read_history


def log(folder, loss, first=0, step=1):
    path = folder / "log.csv"
    path.write_text("iter,loss,lr\n" + "".join(f"{first + step * i},{x},0.01\n" for i, x in enumerate(loss)))
    return path


FLAT = np.minimum(np.arange(3000), 900)
FLAT = (10 - FLAT / 180) * (1 + 0.01 * np.random.default_rng(0).standard_normal(3000))


def test_a_plateau_is_told_in_iterations(tmp_path, capsys):
    path = log(tmp_path, FLAT)
    assert main(["diagnose", str(path)]) == 0
    output = capsys.readouterr().out
    assert "epochs unknown, so in 100 pieces of 30 iterations, 3,000 losses" in output
    assert "plateau: since iteration" in output and "settings to try" not in output
    assert "epoch" not in output.replace("epochs unknown", "") and "ship: iteration " in output
    assert "0-2999" in output


def test_json_has_iterations(tmp_path):
    found = as_json(diagnose(read_history(log(tmp_path, FLAT, first=1))))
    (verdict,) = found["verdicts"]
    assert found["epochs"] is None and (found["phases"][0]["first"], found["phases"][-1]["last"]) == (1, 3000)
    assert verdict["numbers"]["iteration"] == pytest.approx(900, abs=120) and "epoch" not in verdict["numbers"]
    assert verdict["numbers"]["iteration"] + verdict["numbers"]["iterations"] == 3001
    assert found["ship"]["iteration"] > 900 and "epoch" not in found["ship"]
    assert max(found["ship"]["as_good"]) > 900 and f"{verdict['numbers']['iteration']:,}" in verdict["text"]
    json.dumps(found)


def test_iterations_are_those_of_the_file(tmp_path):
    """A line every 50; where numbers start again as epochs do, rows are counted."""
    epochs = read_history(log(tmp_path, falling(1000), first=50, step=50)).epochs
    assert (epochs.first_iteration(1), epochs.last_iteration(100), epochs.piece) == (1, 50_000, 500)
    assert (epochs.last_iteration(1), epochs.first_iteration(2)) == (500, 501)
    path = log(tmp_path, falling(100))
    path.write_text(path.read_text() + 2 * "".join(f"{i},5,0.01\n" for i in range(100)))
    history = read_history(path)
    assert history.epochs.starts[[0, -1]].tolist() == [1, 301] and not history.remarks


@pytest.mark.parametrize(("first", "step", "ends"), [(0, 1, [0, 100]), (0, 50, [0, 4951]), (1000, 50, [951, 5951])])
def test_the_last_iteration_is_one_that_was_logged(tmp_path, first, step, ends):
    assert read_history(log(tmp_path, falling(100), first, step)).epochs.starts[[0, -1]].tolist() == ends


def test_a_second_run_of_iterations_is_the_one_that_is_read(tmp_path):
    path = log(tmp_path, np.full(500, 9), first=1)
    path.write_text(path.read_text() + "".join(f"{i},5,0.01\n" for i in range(1, 501)))
    history = read_history(path)
    assert history.batches.loss.tolist() == [5] * 500 and history.epochs.last_iteration(50) == 500
    assert "2 runs, and the last one is read: after iteration 500 it begins with iteration 1" in history.remarks[0]


def test_iterations_that_were_repeated_count_once(tmp_path):
    path = log(tmp_path, np.full(500, 9), first=1)
    path.write_text(path.read_text() + "".join(f"{i},5,0.01\n" for i in range(401, 701)))
    history = read_history(path)
    assert history.batches.loss.tolist() == [9] * 400 + [5] * 300
    assert history.epochs.starts[[0, -1]].tolist() == [1, 701]
    assert "went on with iteration 401 after iteration 500: of iterations it repeated" in history.remarks[0]


@pytest.mark.parametrize("apart", [False, True], ids=["after its step", "at the end"])
def test_rows_of_validation_are_no_iterations(tmp_path, apart):
    rows = [(f"{i},5,\n", f"{i},,6\n" if i % 50 == 0 else "") for i in range(1, 501)]
    both = ["".join(column) for column in zip(*rows, strict=True)] if apart else ["".join(row) for row in rows]
    (tmp_path / "log.csv").write_text("iter,loss,val_loss\n" + "".join(both))
    history = read_history(tmp_path / "log.csv")
    assert len(history.batches) == 500 and history.epochs.starts[[0, -1]].tolist() == [1, 501] and not history.remarks


def test_a_loss_that_breaks_or_swings(tmp_path):
    broken = FLAT.copy()
    broken[2000] = np.nan
    found = diagnose(read_history(log(tmp_path, broken)))
    assert "first in iteration 1,980" in found.verdicts[0].text
    assert "go on from before iteration 1,980" in found.advice.lines[0] and diagnosis_picture(found)
    swings = falling(3000, noise=0.02) * (1 + 0.1 * np.sin(2 * np.pi * np.arange(3000) / 30))
    found = diagnose(read_history(log(tmp_path, swings)))
    assert "with a period of 30 iterations" in found.verdicts[0].text
    assert "look for what repeats every 30 iterations" in found.advice.lines[0], "a piece is no epoch of the data"


def test_epochs_that_are_known_stay(tmp_path):
    (tmp_path / "log.csv").write_text("epoch,iter,loss\n" + "".join(f"{i // 10},{i},5\n" for i in range(100)))
    found = as_json(diagnose(read_history(tmp_path / "log.csv")))
    assert found["epochs"] == 10 and found["ship"]["epoch"] == 10 and found["phases"][0]["last"] == 10
