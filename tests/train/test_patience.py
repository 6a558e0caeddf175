"""`--patience N`: a run ends when N epochs have brought nothing better."""

import csv

import pytest

from tests.train.small_run import flags, state_of
from yolofast.cli import main
from yolofast.evaluate.v7_metrics import V7Result

pytestmark = pytest.mark.slow


@pytest.fixture
def scored(monkeypatch):
    """Makes evaluations come out as given, in tenths."""

    def by(scores):
        seen = []

        def fitness(result):
            if not any(result is other for other in seen):
                seen.append(result)
            return scores[len(seen) - 1] / 10

        monkeypatch.setattr(V7Result, "fitness", property(fitness))

    return by


@pytest.mark.parametrize(
    ("scores", "trained"),
    [([3, 2, 4, 3, 3, 9], 5), ([0, 0, 0, 0, 0, 0], 6)],
    ids=["two worse in a row", "nothing found yet"],
)
def test_a_run_ends(scores, trained, scored, tmp_path, capsys, one_thread):
    scored(scores)
    assert main(["train", *flags(tmp_path, epochs=6, patience=2)]) == 0
    with (tmp_path / "runs" / "exp" / "results.csv").open() as file:
        assert len(list(csv.DictReader(file))) == trained
    out = capsys.readouterr().out
    assert ("no better result for 2 epochs: stopping" in out) == (trained < 6)
    # More epochs alone would not be begun.
    assert ("/exp --patience 4\n" in out, "/exp --epochs 12\n" in out) == (trained < 6, trained == 6)


def test_a_phase_of_a_plan_is_waited_for_anew(scored, tmp_path, capsys, one_thread):
    """Else a plateau of the head would keep the rest from ever learning."""
    scored([3, 2, 2, 2, 2, 9])
    (tmp_path / "plan.yaml").write_text("plan: [{until: 3, train: [head]}, {train: [head, neck]}]\n")
    assert main(["train", *flags(tmp_path, epochs=6, patience=2, plan=tmp_path / "plan.yaml")]) == 0
    with (tmp_path / "runs" / "exp" / "results.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 5
    assert "no better result for 2 epochs: stopping" in capsys.readouterr().out


def test_the_epoch_it_ends_with_is_saved_even_if_only_the_last_one_shall_be(scored, tmp_path, capsys, one_thread):
    scored([3, 2, 2, 9, 1, 1])
    assert main(["train", *flags(tmp_path, epochs=6, patience=1), "--nosave"]) == 0
    weights, out = tmp_path / "runs" / "exp" / "weights", capsys.readouterr().out
    assert state_of(tmp_path)["next_epoch"] == 2 and (weights / "best.pt").exists()
    assert "no better result for 1 epoch: stopping" in out
    not_kept = f"mAP50 0.000, mAP50-95 0.000; its weights were not saved, those in {weights / 'best.pt'}"
    assert f"best: epoch 1, {not_kept}" in out
    first = (weights / "best.pt").read_bytes()
    assert main(["train", "--resume", str(weights.parent), "--patience", "3", "--epochs", "6"]) == 0
    assert f"best: epoch 4, {not_kept}" in capsys.readouterr().out
    assert (weights / "best.pt").read_bytes() != first, "those of the last epoch now"
