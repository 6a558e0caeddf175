"""A few losses far above the others are told from the noise of batches, and found again."""

import dataclasses

import numpy as np
import pytest

from tests.report.diagnose import planted
from yolofast.report.diagnose.diagnosis import as_json, diagnose
from yolofast.report.diagnose.spikes import rare_spikes


def with_spikes(history, places, times=6.0):
    history.batches.loss[places] *= times
    return diagnose(history)


@pytest.mark.parametrize("places", [[1234], [700, 701, 1500]], ids=["one", "several"])
def test_where_they_were_is_said(places):
    found = with_spikes(planted.made_up(np.random.default_rng(3), planted.learns), places)
    (verdict,) = found.verdicts
    assert verdict.kind == "rare spikes" and verdict.numbers["count"] == len(places)
    assert verdict.numbers["share"] > 0.5 and verdict.numbers["highest"] == pytest.approx(6, abs=1)
    assert "the others vary by 3." in verdict.text, "as planted"
    assert found.around.std == pytest.approx(0.03, abs=0.003)
    for place in places:
        assert f"epoch {place // planted.PER_EPOCH + 1} batch {place % planted.PER_EPOCH + 1}" in found.advice.lines[0]
    assert not found.advice.changes, "a larger batch would hide them"
    assert as_json(found)["fluctuation"]["spikes"]["at"][0] == {
        "epoch": places[0] // planted.PER_EPOCH + 1, "batch": places[0] % planted.PER_EPOCH + 1
    }  # fmt: skip


@pytest.mark.slow
def test_what_else_there_is_stays_named():
    for seed in range(3):
        noisy = with_spikes(planted.noise_only(np.random.default_rng(seed)), [900, 1400], times=12)
        assert [verdict.kind for verdict in noisy.verdicts] == ["rare spikes", "batch noise"]
        mixed = with_spikes(planted.data_mix(np.random.default_rng(seed)), [900, 1400])
        assert [verdict.kind for verdict in mixed.verdicts] == ["rare spikes", "data mix"]


def test_a_log_of_epochs_names_epochs():
    history = dataclasses.replace(planted.made_up(np.random.default_rng(0), lambda s: 4 + 0 * s), batches=None)
    train = np.tile(history.epochs.train, 3)
    train[100] *= 5
    count = np.arange(1, len(train) + 1)
    unknown = np.full(len(train), np.nan)
    epochs = dataclasses.replace(history.epochs, number=count, train=train, val=unknown, fitness=unknown, lr=unknown)
    found = diagnose(dataclasses.replace(history, epochs=epochs))
    assert "epoch 101" in next(line for line in found.advice.lines if line.startswith("look at"))


@pytest.mark.parametrize("seed", range(5))
def test_noise_with_a_tail_has_no_spikes(seed):
    rng = np.random.default_rng(seed)
    tails = rng.standard_normal(2000), rng.standard_t(5, 2000), rng.exponential(1, 2000), rng.lognormal(0, 0.5, 2000)
    for noise in tails:
        assert not rare_spikes(0.2 * noise).any()
    rounded = np.zeros(2000)
    rounded[::300] = 0.5
    assert not rare_spikes(rounded).any(), "a log of one digit"
