"""`evaluation.json` tells of the weights that are in `best.pt`, whichever those are and whoever has seen them."""

import json

import pytest

from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.evaluate.v7_metrics import V7Result
from yolofast.train import evaluation

pytestmark = pytest.mark.slow


@pytest.fixture
def worse_and_worse(monkeypatch):
    """Every evaluation scores a tenth less than the one before."""
    seen = []

    def score(result):
        if not any(result is other for other in seen):
            seen.append(result)
        return 1 - next(number for number, other in enumerate(seen, 1) if other is result) / 10

    monkeypatch.setattr(V7Result, "fitness", property(score))
    monkeypatch.setattr(V7Result, "map50", property(score))


def evaluated(folder, what="map50"):
    return json.loads((folder / "runs" / "exp" / "evaluation.json").read_text())[what]


def test_usually_the_best_ones(worse_and_worse, tmp_path, one_thread):
    assert main(["train", *flags(tmp_path, epochs=2)]) == 0
    assert evaluated(tmp_path) == pytest.approx(0.9) and evaluated(tmp_path, "epoch") == 1


def test_the_last_ones_if_no_others_are_saved(worse_and_worse, tmp_path, one_thread):
    assert main(["train", *flags(tmp_path, epochs=2), "--nosave"]) == 0
    assert evaluated(tmp_path) == pytest.approx(0.8) and evaluated(tmp_path, "epoch") == 2


def test_those_of_an_earlier_process_are_evaluated_again(worse_and_worse, monkeypatch, tmp_path, one_thread):
    overlaps, accumulate = [], evaluation.accumulate_metrics

    def filled(*given, **named):
        overlaps.append(named["thresholds"].iou)
        return accumulate(*given, **named)

    monkeypatch.setattr(evaluation, "accumulate_metrics", filled)
    assert main(["train", *flags(tmp_path, epochs=1), "--faithful"]) == 0
    (tmp_path / "runs" / "exp" / "evaluation.json").unlink()
    assert main(["train", "--resume", str(tmp_path / "runs" / "exp"), "--epochs", "2"]) == 0
    assert evaluated(tmp_path) == pytest.approx(0.7), "by a third evaluation, after the two of the epochs"
    assert evaluated(tmp_path, "epoch") == 1
    assert overlaps == [0.6, 0.6, 0.6], "all alike"
