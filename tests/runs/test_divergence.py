"""Losses that are numbers, and of a network that is of no use."""

import numpy as np
import pytest

from yolofast.runs.divergence import lost_epochs, lost_rows

NAN, INF = np.nan, np.inf


def lost(train, val, planned=40):
    return [bool(why) for why in lost_epochs(np.array(train, float), np.array(val, float), planned)]


def test_a_run_that_learns_is_not_lost():
    train = 4 * np.exp(-np.arange(40) / 10)
    assert not any(lost(train, 1.1 * train))
    assert not any(lost(train, 384 * train)), "summed over a batch"


def test_validation_of_the_first_epochs_may_be_behind():
    """Seen in runs that came to good."""
    train, val = np.full(40, 3.0), np.full(40, 3.3)
    val[:4] = 1087, 31856, 153, 5000
    assert not any(lost(train, val))
    assert lost(train, val, planned=4)[3], "after the third epoch of a short run it is late"
    val[0] = 1e14
    assert lost(train, val)[0]


@pytest.mark.parametrize(
    ("train", "val", "says"),
    [
        ([0.5, 14.0], [NAN, NAN], "the training loss is 14, 28 times that of the first epoch"),
        ([0.5, 0.4], [0.6, INF], "the validation loss is not finite"),
        ([0.1] * 5, [0.1] * 4 + [8.8e13], "the validation loss is 8.8e+13, that of training 0.1"),
    ],
)
def test_why(train, val, says):
    *before, last = lost_epochs(np.array(train), np.array(val), 5)
    assert not any(before) and last == says


def test_rows_of_training():
    def row(train, val=()):
        return {"epoch": 0, **{f"train/{n}_loss": x for n, x in zip("ab", train, strict=True)}, **dict(val)}

    rows = [row((None, None)), row((0.2, 0.3)), row((4.0, 0.3), [("val/a_loss", 1.0)]), row((4.9, 0.3))]
    assert [bool(why) for why in lost_rows(rows, 9)] == [False, False, False, True], "an epoch that was undone has none"
    assert lost_rows([row((0.2, 0.3), [("val/a_loss", float("nan"))])], 9) == ["the validation loss is not finite"]
