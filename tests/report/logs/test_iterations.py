"""A log that says no epochs is looked at in equal parts, and a note says so."""

import json

import numpy as np
import pytest

from tests.report.logs.logs import falling
from yolofast.cli import main
from yolofast.report.diagnose.diagnosis import as_json, diagnose
from yolofast.report.diagnose.diagnosis_picture import diagnosis_picture
from yolofast.report.logs.read_run import read_history


def log(folder, loss, first=0, step=1):
    path = folder / "log.csv"
    path.write_text("iter,loss,lr\n" + "".join(f"{first + step * i},{x},0.01\n" for i, x in enumerate(loss)))
    return path


PARTS = "no column says epochs: rows are counted in 100 equal parts (rows: 3,000)"
FLAT = np.minimum(np.arange(3000), 900)
FLAT = (10 - FLAT / 180) * (1 + 0.01 * np.random.default_rng(0).standard_normal(3000))


def test_a_plateau_is_reported_in_parts(tmp_path, capsys):
    path = log(tmp_path, FLAT)
    (tmp_path / "args.yaml").write_text("epochs: 300\n")
    assert main(["diagnose", str(path)]) == 0
    output = capsys.readouterr().out
    assert "row per batch, 100 parts, 3,000 losses, one per batch" in output and f"note: {PARTS}" in output
    assert "plateau: since part " in output and "settings to try" not in output
    assert "epoch" not in output.replace("no column says epochs", "") and "ship: part " in output
    assert "1-100" in output


def test_json_says_what_takes_the_place_of_epochs(tmp_path):
    found = as_json(diagnose(read_history(log(tmp_path, FLAT, first=1))))
    (verdict,) = found["verdicts"]
    assert found["epochs"] is None and found["remarks"] == [PARTS]
    assert verdict["numbers"]["epoch"] == pytest.approx(30, abs=4) and found["ship"]["unit"] == "part"
    assert f"since part {verdict['numbers']['epoch']:.0f}" in verdict["text"]
    json.dumps(found)


@pytest.mark.parametrize("times", [2, 5])
def test_of_iterations_that_start_again_the_last_start_is_read(tmp_path, times):
    """Runs of equal length and epochs look alike, so the note says what would tell."""
    path = log(tmp_path, np.full(500, 9), first=1)
    rows = "".join(f"{i},5,0.01\n" for i in range(1, 501))
    path.write_text(path.read_text() + (times - 1) * rows)
    history = read_history(path)
    assert history.batches.loss.tolist() == [5] * 500 and len(history.epochs) == 50
    assert history.remarks[0] == (
        f"the log holds {times} runs, and the last one is read: after iteration 500 it begins with iteration 1 again; "
        "if these are epochs of one run, a column `epoch` says so"
    )


def test_iterations_that_were_repeated_count_once(tmp_path):
    path = log(tmp_path, np.full(500, 9), first=1)
    path.write_text(path.read_text() + "".join(f"{i},5,0.01\n" for i in range(401, 701)))
    history = read_history(path)
    assert history.batches.loss.tolist() == [9] * 400 + [5] * 300
    assert "continued with iteration 401 after iteration 500: of iterations it repeated" in history.remarks[0]


@pytest.mark.parametrize("apart", [False, True], ids=["after its step", "at the end"])
def test_rows_of_validation_are_no_iterations(tmp_path, apart):
    rows = [(f"{i},5,\n", f"{i},,6\n" if i % 50 == 0 else "") for i in range(1, 501)]
    both = ["".join(column) for column in zip(*rows, strict=True)] if apart else ["".join(row) for row in rows]
    (tmp_path / "log.csv").write_text("iter,loss,val_loss\n" + "".join(both))
    history = read_history(tmp_path / "log.csv")
    assert len(history.batches) == 500 and len(history.remarks) == 1


@pytest.mark.slow
def test_a_loss_that_breaks_or_swings(tmp_path):
    broken = FLAT.copy()
    broken[2000] = np.nan
    found = diagnose(read_history(log(tmp_path, broken)))
    assert "first in part 67" in found.verdicts[0].text
    assert "continue from before part 67" in found.advice.lines[0] and diagnosis_picture(found)
    swings = falling(3000, noise=0.02) * (1 + 0.1 * np.sin(2 * np.pi * np.arange(3000) / 30))
    found = diagnose(read_history(log(tmp_path, swings)))
    assert "with a period of 1 part" in found.verdicts[0].text
    assert "look for what repeats every 1 part" in found.advice.lines[0], "a part is no epoch of the data"


def test_epochs_that_are_known_stay(tmp_path):
    (tmp_path / "log.csv").write_text("epoch,iter,loss\n" + "".join(f"{i // 10},{i},5\n" for i in range(100)))
    found = as_json(diagnose(read_history(tmp_path / "log.csv")))
    assert found["epochs"] == 10 and found["ship"]["epoch"] == 10 and found["phases"][0]["last"] == 10
