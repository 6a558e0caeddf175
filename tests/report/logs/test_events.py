"""Steep beginnings, steps of the learning rate, single events: they hide nothing, and are not blamed on anything."""

import numpy as np
import pytest

from tests.report.diagnose.test_verdicts import kinds
from tests.report.logs.logs import falling
from yolofast.report.diagnose.diagnosis import diagnose
from yolofast.report.diagnose.phases import find_phases
from yolofast.report.diagnose.verdicts import divergence
from yolofast.report.logs.history import Epochs, History
from yolofast.report.logs.read_run import read_history

SEEDS = range(6)


def run(train, val=None, lr=None):
    unknown = np.full(len(train), np.nan)
    epochs = Epochs(
        number=np.arange(1, len(train) + 1),
        train=train,
        val=unknown if val is None else val,
        fitness=unknown,
        lr=unknown if lr is None else lr,
    )
    return History(source="made up", format="made up", epochs=epochs)


def stepped(count):
    share = np.arange(count) / count
    return np.choose((share >= 0.6).astype(int) + (share >= 0.85), [0.01, 0.001, 0.0001])


def test_a_steep_beginning_does_not_hide_a_loss_that_runs_away():
    """It is learning and no noise: 15 epochs, the last seven up by a fifth."""
    course = np.array([6.2, 5.6, 5.1, 4.6, 4.2, 3.9, 3.6, 3.4, 3.45, 3.55, 3.7, 3.8, 3.9, 4.0, 4.1])
    for seed in SEEDS:
        noise = 1 + 0.005 * np.random.default_rng(seed).standard_normal(15)
        (verdict,) = diagnose(run(course * noise)).verdicts
        assert verdict.kind == "divergence" and abs(verdict.numbers["epoch"] - 8) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("count", [6, 8, 16, 24, 40])
def test_noise_alone_does_not_run_away(count):
    """Of a few noisy epochs, next to the lowest, some lie close together by chance."""
    rng = np.random.default_rng(count)
    course = 1 + 0.2 * np.exp(-5 * np.arange(count) / count)
    noisy = [run(course * (1 + 0.15 * rng.standard_normal(count))) for _ in range(400)]
    assert sum(divergence(one, find_phases(one)) is not None for one in noisy) <= 1


def test_a_first_loss_far_off_does_not_hide_a_loss_that_runs_away():
    course = np.array([40, 12, 8, 6, 5.5, 5.2, 5, 4.9, 5, 5.3, 5.8, 6.4, 7])
    for seed in SEEDS:
        noise = 1 + 0.005 * np.random.default_rng(seed).standard_normal(13)
        assert kinds(run(course * noise)) == ["divergence"], seed


@pytest.mark.parametrize("count", [15, 25, 60])
def test_a_step_of_the_learning_rate_does_not_hide_a_loss_that_runs_away(count):
    """It began to rise before the last step, after which there is little left to compare."""
    share = np.arange(count) / count
    for seed in SEEDS:
        train = falling(count, seed, noise=0.005) * (1 + 2 * np.maximum(share - 0.62, 0))
        assert kinds(run(train, lr=stepped(count))) == ["divergence"], seed


def test_a_learning_rate_that_goes_up_begins_anew():
    """Warm restarts: the loss comes back each time, and is higher than at the end of the cycle before."""
    cycle = np.arange(100) % 25 / 25
    lr = 0.01 * (0.02 + 0.49 * (1 + np.cos(np.pi * cycle)))
    for seed in SEEDS:
        train = falling(100, seed, noise=0.005) * (1 + 0.4 * lr / 0.01)
        assert "divergence" not in kinds(run(train[:80], lr=lr[:80])), seed


def test_overfitting_that_comes_with_a_step_of_the_learning_rate():
    """The training loss falls only at the steps."""
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        lr, share = stepped(60), np.arange(60) / 60
        train = (5 + 3 * np.exp(-share / 0.05)) * np.select([lr < 0.001, lr < 0.01], [0.7, 0.8], 1)
        val = 6 + 3 * np.exp(-share / 0.05) + 3 * np.maximum(share - 0.6, 0)
        train, val = (values * (1 + 0.005 * rng.standard_normal(60)) for values in (train, val))
        assert "overfitting" in kinds(run(train, val, lr)), seed


def test_a_first_validation_loss_far_off_does_not_hide_a_period():
    for seed in SEEDS:
        wave = 1 + 0.03 * np.sin(2 * np.pi * np.arange(100) / 7.3)
        val = falling(100, seed, noise=0.01) * wave
        val[0] *= 20
        (verdict,) = diagnose(run(falling(100, seed, noise=0.001), val)).verdicts
        assert verdict.kind == "oscillation" and verdict.numbers["period"] == pytest.approx(7.3, rel=0.02)


EVENTS = {
    "one epoch is 50 % higher": lambda share: np.where((share > 0.6) & (share < 0.62), 1.5, 1.0),
    "steps down": lambda share: np.choose((share > 0.5).astype(int) + (share > 0.8), [1.0, 0.85, 0.8]),
    "a bump": lambda share: 1 + 0.4 * np.exp(-(((share - 0.5) / 0.02) ** 2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EVENTS)
def test_a_single_event_is_no_wandering(tmp_path, name):
    """Where the learning rate is not known, what is alike from batch to batch is put down to it."""
    share = np.arange(4000) / 4000
    for seed in SEEDS:
        loss = falling(4000, seed, noise=0.04) * EVENTS[name](share)
        rows = "".join(f"{i},{x:.6g}\n" for i, x in enumerate(loss))
        (tmp_path / "log.csv").write_text("iter,loss\n" + rows)
        assert kinds(read_history(tmp_path / "log.csv")) == [], seed
