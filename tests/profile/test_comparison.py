import math

import numpy as np
import pytest

from yolofast.profile.step_statistics import compare, in_words


def test_a_difference_and_its_interval_by_hand():
    found = compare([10.0, 11.0, 12.0], [8.0, 10.0, 9.0])  # differences -2, -1, -3
    assert found.difference == pytest.approx(-2)
    # Student's t for 95 % and two degrees of freedom is 4.303, the standard error 1/√3.
    assert found.uncertainty == pytest.approx(4.303 / math.sqrt(3), rel=1e-3)
    assert not found.is_real
    assert "no difference beyond chance" in in_words(found) and "more --steps" in in_words(found)


def test_drift_that_hits_both_does_not_hide_a_difference():
    drift = np.linspace(10, 30, 8)
    noise = np.tile([0.01, -0.01], 4)
    found = compare(list(drift), list(drift * 0 + drift - 1 + noise))
    assert found.is_real
    assert in_words(found).startswith("the second takes 5.0% ± 0.0% less time per image: 1.05× faster")


def test_slower_and_a_single_pair():
    assert "2.00× slower" in in_words(compare([5.0, 5.0, 5.1], [10.0, 10.0, 10.2]))
    assert in_words(compare([5.0], [1.0])).startswith("one pair of blocks says nothing")


def test_equal_runs_are_hardly_ever_called_different():
    rng = np.random.default_rng(0)
    wrong = sum(compare(list(a), list(b)).is_real for a, b in rng.normal(10, 1, (400, 2, 10)))
    assert 5 <= wrong <= 40  # 5 % of 400 are 20
