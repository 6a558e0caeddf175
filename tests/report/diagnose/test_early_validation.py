"""Validation losses of the first epochs that are far off are told, and do not hide the others."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.report.diagnose import planted
from tests.report.logs.logs import falling
from yolofast.report.diagnose.diagnosis import diagnose
from yolofast.report.diagnose.diagnosis_picture import _draw_epochs, _draw_losses, clip_far_above, diagnosis_picture
from yolofast.report.diagnose.verdicts import early_validation
from yolofast.report.logs.history import Epochs, History


def epochs(train, val):
    unknown = np.full(len(train), np.nan)
    return Epochs(number=np.arange(1, len(train) + 1), train=train, val=val, fitness=unknown, lr=unknown)


def spiked(count=30):
    train = falling(count) / 2
    val = 1.1 * train
    val[:3] = 1087, 31856, 153
    return train, val


@pytest.mark.parametrize("count", [4, 10, 30, 100])
def test_a_validation_that_is_behind_is_reported_and_is_no_verdict(count):
    found = diagnose(History(source="a", format="b", epochs=epochs(*spiked(count))))
    assert not found.verdicts and len(found.remarks) == 1
    assert "was 31,856 in epoch 2" in found.remarks[0] and "Judge validation from epoch 4 on" in found.remarks[0]
    assert count < 6 or found.nothing == "nothing conspicuous except the first validation losses"


@pytest.mark.slow
def test_others_are_left_alone():
    train, val = spiked()
    assert early_validation(epochs(train, 1.1 * train)) is None
    assert early_validation(epochs(train, 40 * train)) is None, "computed otherwise throughout"
    val[:3] = 5
    val[15] = 1087
    assert early_validation(epochs(train, val)) is None, "not at the beginning"
    assert early_validation(epochs(train, np.full(30, np.nan))) is None
    for seed in range(20):
        assert not diagnose(planted.clean(np.random.default_rng(seed))).remarks


@pytest.mark.slow
@pytest.mark.parametrize("count", [4, 10, 30])
def test_the_usual_losses_can_be_distinguished(count):
    axes = Figure().subplots()
    found = diagnose(History(source="a", format="b", epochs=epochs(*spiked(count))))
    _draw_epochs(axes, found)
    assert axes.get_ylim()[1] < 6
    assert axes.texts[-1].get_text() == "3 above, up to 31,856, are not shown" and diagnosis_picture(found)


def test_a_spike_of_training_does_not_hide_the_others():
    train = falling(100)
    train[50] = 1e6
    axes = Figure().subplots()
    _draw_losses(axes, diagnose(History(source="a", format="b", epochs=epochs(train, np.full(100, np.nan)))))
    assert axes.get_ylim()[1] < 12 and axes.texts[-1].get_text() == "1 above, up to 1,000,000, is not shown"


@pytest.mark.parametrize("values", [falling(100), np.zeros(5), np.full(3, np.nan), -falling(9), np.array([2.0])])
def test_an_axis_without_far_losses_is_left_alone(values):
    axes = Figure().subplots()
    clip_far_above(axes, values, values)
    assert not axes.texts
