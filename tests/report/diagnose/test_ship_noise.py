"""The noise that is stated of the epoch to ship is that of an evaluation, wherever the curve came from."""

import numpy as np
import pytest

from yolofast.report.diagnose.ship import ShipChoice, choose_epoch, shipped
from yolofast.report.logs.history import Epochs

NOISE = 0.05
BEGINNINGS = {
    "as later": lambda place: 1.0,
    "one epoch far off": lambda place: np.where(place < 1, 20.0, 1.0),
    "three epochs far off": lambda place: np.choose(np.minimum(place, 3), [20.0, 6.0, 3.0, 1.0]),
    "falling steeply": lambda place: 1 + 12 * np.exp(-place / 0.8),
}
LEAST = {"falling steeply": 12}
"""In fewer epochs hardly one is left that is not part of the fall."""


def stated(seed, count, beginning, score=False):
    place = np.arange(count)
    course = (5 + np.exp(-place / 8)) * beginning(place)
    val = course + NOISE * np.random.default_rng(seed).standard_normal(count)
    unknown = np.full(count, np.nan)
    epochs = Epochs(
        number=place + 1,
        train=unknown,
        val=unknown if score else val,
        fitness=100 - val if score else unknown,
        lr=unknown,
    )
    return choose_epoch(epochs).noise


@pytest.mark.parametrize(
    ("name", "count"),
    [(name, count) for name in BEGINNINGS for count in (10, 12, 15, 30) if count > LEAST.get(name, 0)],
)
@pytest.mark.parametrize("score", [False, True], ids=["by loss", "by score"])
def test_the_noise_is_that_of_an_evaluation(name, count, score):
    """Within a fifth, of many runs: in a single one few evaluations lie around the best, and half of it is luck."""
    found = np.array([stated(seed, count, BEGINNINGS[name], score) for seed in range(200)])
    assert np.median(found) == pytest.approx(NOISE, rel=0.2)
    assert (found < 2.5 * NOISE).mean() > 0.9


def test_scores_of_few_digits_have_noise():
    """Most neighbours are the same; what is left between them is no exception."""
    score = np.array([0.30, 0.31, 0.31, 0.31, 0.30, 0.31, 0.31, 0.31, 0.31, 0.30, 0.31, 0.31])
    unknown = np.full(12, np.nan)
    epochs = Epochs(number=np.arange(1, 13), train=unknown, val=unknown, fitness=score, lr=unknown)
    assert 0.002 < choose_epoch(epochs).noise < 0.01


def test_one_epoch_is_named_the_one_whose_weights_are_there(tmp_path):
    chosen = ShipChoice(
        epoch=12, criterion="", value=0.5, noise=0.01, best=11, as_good=(11, 12), by_loss=(11, 12), score="fitness"
    )
    words, file = shipped(chosen, tmp_path)
    assert words.startswith("12 (fitness is 0.5; 2 epochs") and file is None
    (tmp_path / "best.pt").touch()
    words, file = shipped(chosen, tmp_path)
    assert words.startswith("11, that of best.pt (epoch 12 cannot be told from it, but its weights were not kept")
    assert file == tmp_path / "best.pt"
    (tmp_path / "epoch_012.pt").touch()
    words, file = shipped(chosen, tmp_path)
    assert words.startswith("12 (") and file == tmp_path / "epoch_012.pt"
