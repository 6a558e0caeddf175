"""No advice ends a run before the epoch to ship, whatever that was chosen by."""

import numpy as np
import pytest

from tests.report.logs.logs import falling, train_log
from yolofast.report.diagnose.diagnosis import diagnose
from yolofast.report.logs.history import YOLOX_LOG, Epochs, History
from yolofast.report.logs.read_run import read_history

SHARE = np.arange(60) / 60
FLAT = 5 + 0.002 * np.random.default_rng(0).standard_normal(60)


def diagnosed(train, val=None, score=None, lr=0.01, **more):
    count = len(train)
    unknown = np.full(count, np.nan)
    epochs = Epochs(
        number=np.arange(1, count + 1),
        train=train,
        val=unknown if val is None else val,
        fitness=unknown if score is None else score,
        lr=np.full(count, lr),
    )
    return diagnose(History(**{"source": "a", "format": "b", "epochs": epochs, **more}))


def changes(found):
    return {change.key: (change.before, change.after) for change in found.advice.changes}


def test_a_validation_loss_that_still_falls_keeps_the_length():
    found = diagnosed(FLAT, val=falling(60, noise=0.001))
    assert [verdict.kind for verdict in found.verdicts] == ["plateau"]
    assert found.choice.epoch > 50 and not changes(found)
    assert f"although the validation loss is best in epoch {found.choice.epoch}" in found.advice.lines[0]


def test_a_training_loss_alone_proposes_no_shorter_run():
    found = diagnosed(FLAT)
    assert [verdict.kind for verdict in found.verdicts] == ["plateau"] and not changes(found)
    assert "Without a validation nobody knows" in found.advice.lines[0]


def test_the_log_of_a_loop_proposes_no_shorter_run(tmp_path):
    noise = np.random.default_rng(0).standard_normal(300)
    lines = [f"Epoch {i // 10 + 1}, iter {i % 10 + 1}/10 - loss: {5 + 0.002 * x:.4f}" for i, x in enumerate(noise)]
    (tmp_path / "log.txt").write_text("\n".join(lines))
    found = diagnose(read_history(tmp_path / "log.txt"))
    assert [verdict.kind for verdict in found.verdicts] == ["plateau"] and not changes(found)


@pytest.mark.parametrize("seed", range(8))
def test_a_run_that_overfits_is_as_long_as_the_epoch_to_ship(seed):
    """The lowest loss lies an epoch or two beside the lowest of its course."""
    noise = np.random.default_rng(seed).standard_normal(60)
    val = falling(60, noise=0) * np.exp(1.2 * np.maximum(SHARE - 0.4, 0)) * (1 + 0.01 * noise)
    found = diagnosed(falling(60, seed), val=val)
    assert [verdict.kind for verdict in found.verdicts] == ["overfitting"]
    assert changes(found)["epochs"][1] >= found.choice.epoch


def test_a_lucky_validation_loss_much_later_is_named():
    val = falling(60, noise=0.001) * np.exp(2.5 * np.maximum(SHARE - 0.4, 0))
    val[50] = val.min() - 0.1
    found = diagnosed(falling(60), val=val)
    assert found.choice.epoch == 51 and "epochs" not in changes(found)
    assert "that of epoch 51 alone is lower, which may be luck" in found.advice.lines[0]


def test_a_score_that_is_best_at_the_very_end_keeps_the_length():
    """Nothing came after it that could be saved, although it is only a little later."""
    val = np.concatenate((np.linspace(8, 5, 55), np.linspace(5.5, 8, 5)))
    found = diagnosed(falling(60, noise=0.0001), val=val, score=np.linspace(0.1, 0.4, 60))
    assert [verdict.kind for verdict in found.verdicts] == ["overfitting"] and found.choice.epoch == 60
    assert not changes(found) and "loss and mAP disagree" in found.advice.lines[0]


def test_a_loss_that_runs_away_while_scores_rise_says_that_they_disagree(tmp_path):
    loss = falling(1500, noise=0.005) * np.exp(4 * np.maximum(np.arange(1500) / 1500 - 0.75, 0))
    text = train_log(loss, np.full(1500, 1e-3), 50, every=5, scores=np.linspace(0.1, 0.3, 30))
    (tmp_path / "train_log.txt").write_text(text)
    found = diagnose(read_history(tmp_path))
    assert found.verdicts[0].kind == "divergence" and found.choice.epoch == 30
    assert "They disagree: the score is best in epoch 30, which is later" in found.advice.lines[0]


def test_a_score_that_is_best_a_little_later_does_not_disagree():
    train = falling(60, noise=0.001) * np.exp(4 * np.maximum(SHARE - 0.75, 0))
    epoch = int(diagnosed(train).verdicts[0].numbers["epoch"])
    score = 0.3 - 0.01 * np.abs(np.arange(1, 61) - epoch - 2)
    found = diagnosed(train, score=score)
    assert found.advice.lines[0].endswith(f"continue from epoch {epoch + 2}")


def test_a_loss_that_runs_away_continues_from_the_epoch_to_ship():
    train = falling(60, noise=0.001) * np.exp(4 * np.maximum(SHARE - 0.75, 0))
    found = diagnosed(train, val=1.1 * train)
    assert found.advice.lines[0].endswith(f"continue from epoch {found.choice.epoch}")
    assert "disagree" not in found.advice.lines[0]


@pytest.mark.parametrize(
    ("settings", "words", "line"),
    [
        ({}, "warm up twice as long", "warmup_epochs: ? -> twice as long"),
        ({"warmup_epochs": 5}, "warm up twice as long", "warmup_epochs: 5 -> 10"),
        ({"warmup_epochs": 15}, "warm up for 20 epochs", "warmup_epochs: 15 -> 20"),
        ({"warmup_epochs": 20}, "", ""),
    ],
)
def test_a_longer_warm_up_is_a_setting(settings, words, line):
    """As long as a third of the run at most."""
    train = falling(60, noise=0.001) * np.exp(4 * np.maximum(SHARE - 0.75, 0))
    found = diagnosed(train, settings=settings)
    assert (words in found.advice.lines[0]) and ("warm up" in found.advice.lines[0]) == bool(words)
    assert [str(change) for change in found.advice.changes if "warm" in change.key] == [line] * bool(line)


def test_a_run_s_length_has_the_name_its_trainer_gives_it():
    val = falling(60, noise=0.001) * np.exp(1.2 * np.maximum(SHARE - 0.4, 0))
    assert set(changes(diagnosed(falling(60), val=val))) == {"epochs"}
    yolox = diagnosed(falling(60), val=val, format=YOLOX_LOG, settings={"max_epoch": 80})
    assert changes(yolox)["max_epoch"][0] == 80 and "patience" not in changes(yolox)
