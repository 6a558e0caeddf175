"""`--patience N`: a run ends when N epochs have brought nothing better."""

import csv

import pytest

from tests.engine.small_run import flags
from yolofast.cli import main
from yolofast.evaluate.v7_metrics import V7Result


@pytest.mark.parametrize(
    ("scores", "trained"),
    [([3, 2, 4, 3, 3, 9], 5), ([0, 0, 0, 0, 0, 0], 6)],
    ids=["two worse in a row", "nothing found yet"],
)
def test_a_run_ends(scores, trained, tmp_path, monkeypatch, capsys, one_thread):
    seen = []

    def fitness(result):
        if not any(result is other for other in seen):
            seen.append(result)
        return scores[len(seen) - 1] / 10

    monkeypatch.setattr(V7Result, "fitness", property(fitness))
    assert main(["train", *flags(tmp_path, epochs=6, patience=2)]) == 0
    with (tmp_path / "runs" / "exp" / "results.csv").open() as file:
        assert len(list(csv.DictReader(file))) == trained
    assert ("no better result for 2 epochs: stopping" in capsys.readouterr().out) == (trained < 6)
