"""Iterations that start again in a file without epochs: epochs of one run, or runs one after the other."""

import numpy as np
import pytest

from tests.report.logs import falling
from yolofast.report.read_run import read_history
from yolofast.report.restarts import Restart, equal_restarts, kinds_of

ROWS = 200


def rates(count, kind):
    share = np.arange(count) / count
    cosine = 0.01 * (0.02 + 0.49 * (1 + np.cos(np.pi * share)))
    return {
        "unknown": None,
        "constant": np.full(count, 0.01),
        "cosine": cosine,
        "warm-up": np.where(share < 0.05, 0.2 * share, cosine),
    }[kind]


def read(folder, loss, lr, rows=ROWS):
    cells = [np.arange(len(loss)) % rows, loss, *([] if lr is None else [lr])]
    lines = "".join(",".join(map(str, row)) + "\n" for row in zip(*cells, strict=True))
    (folder / "log.csv").write_text(("iter,loss\n" if lr is None else "iter,loss,lr\n") + lines)
    return read_history(folder / "log.csv")


KINDS = pytest.mark.parametrize("kind", ["unknown", "constant", "cosine", "warm-up"])


@KINDS
@pytest.mark.parametrize("runs", [2, 3, 5])
def test_runs_of_equal_length_are_not_epochs(tmp_path, kind, runs):
    losses = [falling(ROWS, seed, noise=0.05) * (1 + 0.1 * seed) for seed in range(runs)]
    lr = rates(ROWS, kind)
    history = read(tmp_path, np.concatenate(losses), None if lr is None else np.tile(lr, runs))
    assert history.batches.loss.tolist() == losses[-1].tolist()
    assert history.remarks == (
        f"the log holds {runs} runs, and the last one is read: after iteration 199 it begins with iteration 0 again",
    )


@KINDS
@pytest.mark.parametrize("epochs", [2, 3, 40])
def test_iterations_within_epochs_are_one_run(tmp_path, kind, epochs):
    history = read(tmp_path, falling(ROWS * epochs, noise=0.05), rates(ROWS * epochs, kind))
    assert len(history.batches) == ROWS * epochs and not history.remarks


def test_epochs_of_a_stepped_rate_are_one_run(tmp_path):
    """Each has a rate of its own, as runs of a search might; the losses go on."""
    history = read(tmp_path, falling(ROWS * 5, noise=0.05), np.repeat(0.01 / 2.0 ** np.arange(5), ROWS))
    assert len(history.batches) == ROWS * 5 and not history.remarks


def test_runs_of_a_search_for_a_rate(tmp_path):
    losses = np.concatenate([falling(ROWS, seed, noise=0.05) for seed in range(3)])
    history = read(tmp_path, losses, np.repeat([0.01, 0.02, 0.04], ROWS))
    assert len(history.batches) == ROWS and "3 runs" in history.remarks[0]


def test_runs_of_several_epochs(tmp_path):
    losses = [falling(ROWS * 4, seed, noise=0.05) for seed in range(3)]
    history = read(tmp_path, np.concatenate(losses), np.tile(rates(ROWS * 4, "cosine"), 3))
    assert history.batches.loss.tolist() == losses[-1].tolist()
    assert len(history.remarks) == 1 and "the log holds 3 runs" in history.remarks[0]


def test_the_last_of_the_runs_may_not_be_over(tmp_path):
    losses = [falling(ROWS, seed, noise=0.02) for seed in range(3)]
    history = read(
        tmp_path, np.concatenate(losses)[: 2 * ROWS + 50], np.tile(rates(ROWS, "cosine"), 3)[: 2 * ROWS + 50]
    )
    assert history.batches.loss.tolist() == losses[-1][:50].tolist() and "3 runs" in history.remarks[0]


@pytest.mark.parametrize("restarts", [1, 2])
def test_what_nothing_tells_is_said_once(tmp_path, restarts):
    """A loss that stands still at a constant rate begins as it ended."""
    loss = 5 + 0.1 * np.random.default_rng(0).standard_normal(ROWS * (restarts + 1))
    history = read(tmp_path, loss, rates(len(loss), "constant"))
    assert len(history.remarks) == 1
    assert "do not tell epochs from runs here, a column `epoch` would" in history.remarks[0]
    assert len(history.batches) == (ROWS if restarts == 1 else len(loss))
    assert restarts == 1 or "start again 2 times, which is taken for epochs of one run" in history.remarks[0]


def test_rates_and_losses_that_contradict_one_another():
    """The rate begins again and the loss goes on: a cycle in each epoch, or runs that go on from the weights."""
    loss, lr = falling(ROWS * 3), np.tile(rates(ROWS, "cosine"), 3)
    assert kinds_of(np.array([ROWS, 2 * ROWS]), loss, lr) == [Restart.UNKNOWN] * 2


def test_a_loss_that_was_not_a_number_tells_nothing():
    loss = np.concatenate([falling(ROWS)] * 3)
    loss[ROWS - 20 : ROWS] = np.inf
    assert kinds_of(np.array([ROWS, 2 * ROWS]), loss, None) == [Restart.RUN] * 2, "the other one tells"
    assert kinds_of(np.array([ROWS]), np.full(2 * ROWS, np.inf), None) == [Restart.UNKNOWN]


@pytest.mark.parametrize(
    ("iterations", "places"),
    [
        ([0, 1, 2, 0, 1, 2, 0, 1], [3, 6]),
        ([0, 1, 2, 0, 1, 2, 3], []),
        ([0, 1, 0, 1, 2, 0, 1, 2], []),
        ([0, 1, 2, 1, 2, 3], []),
        ([0, 1, 2, 3], []),
    ],
    ids=["equal", "the last is longer", "the first was killed", "resumed", "none"],
)
def test_only_equal_lengths_leave_a_doubt(iterations, places):
    assert equal_restarts(np.array(iterations, float)).tolist() == places


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_noise_does_not_look_like_a_run(noise):
    """Many epochs of few rows are many chances to go wrong."""
    for seed in range(40):
        loss = falling(2000, seed, noise)
        assert Restart.RUN not in kinds_of(np.arange(20, 2000, 20), loss, None), seed
