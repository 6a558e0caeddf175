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
    """A line every 50; where numbers start again, rows are counted."""
    epochs = read_history(log(tmp_path, falling(1000), first=50, step=50)).epochs
    assert (epochs.first_iteration(1), epochs.last_iteration(100), epochs.piece) == (50, 50_049, 500)
    path = log(tmp_path, falling(100))
    path.write_text(path.read_text() + "".join(f"{i},5,0.01\n" for i in range(100)))
    assert read_history(path).epochs.starts[[0, -1]].tolist() == [1, 201]


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
