"""A run that has diverged although its losses are numbers: it is told, and no epoch of it is shipped."""

import dataclasses

import numpy as np
import pytest

from tests.report.diagnose import planted
from yolofast.cli import main
from yolofast.report.diagnose.diagnosis import as_json, diagnose

# Seen with lr0 = 10: a training loss that looks harmless, because every batch is normalised by itself.
SEEN = """epoch,train/box_loss,train/obj_loss,val/box_loss,val/obj_loss,metrics/mAP50(B),metrics/mAP50-95(B),lr/pg0
0,0.0654,0.0034,0.037,nan,0.0027,0.0007,3
1,0.0361,0.0024,0.037,2.17e+14,0.0004,7e-05,5.95
2,0.0302,0.0027,0.037,8.8e+13,0,0,7.49
3,0.0429,0.0020,0.060,4.4e+07,0,0,5.5
4,0.0757,0.0005,0.037,20010,0.0003,4e-05,3.25
"""


def test_nothing_is_shipped(tmp_path, capsys):
    (tmp_path / "results.csv").write_text(SEEN)
    assert main(["diagnose", str(tmp_path / "results.csv")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "divergence: in epoch 1 the validation loss is not finite; it did not come back" in said
    assert "take a tenth of the learning rate" in said and "begin anew" in said
    assert "ship: nothing, every epoch is of a network that had diverged" in said and "ship: epoch" not in said
    assert "Judge validation from" not in said, "that would make it harmless"


def test_nothing_is_shipped_of_a_run_that_broke_and_finds_nothing(tmp_path, capsys):
    """Seen with lr0 = 10: undone once and back among small losses, with a network that sees objects nowhere."""
    rows = [(0, 1.27, 1.2e33), (1, "nan", 128.0), (2, 0.051, 0.0914), (3, 0.0913, 0.0622)]
    lines = [f"{epoch},{train},{val},0,0,1.1" for epoch, train, val in rows]
    head = "epoch,train/box_loss,val/box_loss,metrics/mAP50(B),metrics/mAP50-95(B),lr/pg0"
    (tmp_path / "results.csv").write_text("\n".join([head, *lines]) + "\n")
    assert main(["diagnose", str(tmp_path / "results.csv")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "ship: nothing, the run diverged, and no epoch of it finds anything" in said and "begin anew" in said
    (tmp_path / "results.csv").write_text("\n".join([head, *lines]).replace(",0,0,", ",0.2,0.1,") + "\n")
    assert main(["diagnose", str(tmp_path / "results.csv")]) == 0
    assert "ship: nothing" not in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_diverges_late_ships_an_epoch_before(seed):
    history = planted.clean(np.random.default_rng(seed))
    epochs = history.epochs
    val, fitness = epochs.val.copy(), epochs.fitness.copy()
    val[30:], fitness[35] = 1e9, 0.9  # by chance, in a network that is of no use
    found = diagnose(dataclasses.replace(history, epochs=dataclasses.replace(epochs, val=val, fitness=fitness)))
    assert found.verdicts[0].kind == "divergence"
    assert found.verdicts[0].numbers == {"epoch": 31, "lost": 10}
    assert found.choice.epoch <= 30 and not found.ships_nothing
    assert {change.key: change.after for change in found.advice.changes}["lr0"] == pytest.approx(planted.LR / 10)


def test_a_run_that_came_back_has_no_verdict_of_it():
    history = planted.clean(np.random.default_rng(0))
    val = history.epochs.val.copy()
    val[10] = np.inf
    found = diagnose(dataclasses.replace(history, epochs=dataclasses.replace(history.epochs, val=val)))
    assert not found.verdicts and as_json(found)["ship"] is not None
