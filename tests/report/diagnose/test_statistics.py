"""Numbers of a curve against hand-made cases and SciPy's own."""

import numpy as np
import pytest
from scipy import stats

from yolofast.report.diagnose.fluctuation import smooth_course, wandering_share
from yolofast.report.diagnose.period import find_period
from yolofast.report.diagnose.regression import regress, size_effect
from yolofast.report.diagnose.statistics import describe, fit_line, noise_between


def test_a_straight_line_is_all_drift():
    curve = describe(np.linspace(10, 8, 101))
    assert curve.mean == pytest.approx(9) and curve.trend == pytest.approx(-2 / 9) and curve.drift_share > 0.99
    assert curve.noise == pytest.approx(0.02 / 2**0.5)


def test_noise_is_distinguished_from_drift():
    rng = np.random.default_rng(0)
    curve = describe(np.linspace(10, 8, 4000) + 0.5 * rng.standard_normal(4000))
    assert curve.noise == pytest.approx(0.5, rel=0.03)
    assert curve.drift_share == pytest.approx((4 / 12) / (4 / 12 + 0.25), abs=0.03)
    assert curve.cv == pytest.approx(curve.std / 9, rel=0.01)


def test_what_is_no_number_is_left_out():
    assert describe(np.array([1.0, np.nan, 3.0])).mean == 2
    assert describe(np.array([np.nan])).values == 0
    assert noise_between(np.array([5.0])) == 0


def test_the_line_is_scipy_s():
    values = np.random.default_rng(1).standard_normal(30).cumsum()
    own, other = fit_line(values), stats.linregress(np.arange(30), values)
    assert own.slope == pytest.approx(other.slope) and own.error == pytest.approx(other.stderr)
    assert 2 * min(own.falls, 1 - own.falls) == pytest.approx(other.pvalue)


def test_groups_have_heights_of_their_own():
    values = np.concatenate((np.arange(10.0), np.arange(10.0, 20) + 100))
    assert fit_line(values, np.repeat([0, 1], 10)).slope == pytest.approx(1)


def test_a_bend_is_followed_and_noise_is_not():
    rng, share = np.random.default_rng(2), np.linspace(0, 1, 3000)
    course = 4 + 5 * np.exp(-share / 0.3)
    found = smooth_course(course * (1 + 0.05 * rng.standard_normal(3000)))
    assert np.abs(found / course - 1).max() < 0.02


def test_regression_finds_slopes_and_stays_silent_otherwise():
    rng = np.random.default_rng(3)
    contents = {name: rng.standard_normal(2000) for name in ("mosaic", "boxes")}
    found = regress(2 * contents["mosaic"] + contents["boxes"] + 2 * rng.standard_normal(2000), contents)
    assert found.slopes == pytest.approx({"mosaic": 2, "boxes": 1}, abs=0.15)
    assert found.shares["mosaic"] == pytest.approx(4 / 9, abs=0.04) and found.shares["boxes"] == pytest.approx(
        1 / 9, abs=0.03
    )
    alarms = sum(
        regress(rng.standard_normal(500), {n: v[:500] for n, v in contents.items()}).share > 0 for _ in range(200)
    )
    assert alarms == 0


def test_sizes_that_matter_are_seen_beside_a_mix_that_does_not():
    rng = np.random.default_rng(7)
    sizes = np.repeat(rng.choice([64.0, 96.0, 128.0, 160.0], 200), 10)
    level = np.select([sizes == 64, sizes == 160], [0.1, 0.05], -0.05)
    values = level - level.mean() + 0.05 * rng.standard_normal(2000)
    found = regress(values, {"mosaic": rng.standard_normal(2000), "boxes": rng.standard_normal(2000)}, sizes)
    assert list(found.shares) == ["size"]
    assert found.shares["size"] == pytest.approx(level.var() / (level.var() + 0.05**2), abs=0.05)
    differences = np.array([found.sizes[size] for size in (96, 128, 160)]) - found.sizes[64]
    np.testing.assert_allclose(differences, [-0.15, -0.15, -0.05], atol=0.01)


def test_a_walk_is_not_put_down_to_sizes_that_stay_for_ten_batches():
    """Three are expected by chance; compared batch by batch it would be most of them."""
    rng = np.random.default_rng(8)
    walks = rng.standard_normal((300, 600)).cumsum(axis=1)
    sizes = np.repeat(rng.choice([64.0, 96.0, 128.0, 160.0], (300, 60)), 10, axis=1)
    alarms = [size_effect(w - w.mean(), s) is not None for w, s in zip(walks, sizes, strict=True)]
    assert sum(alarms) <= 9


def test_too_few_sizes_say_nothing():
    values = np.random.default_rng(9).standard_normal(100)
    assert size_effect(values, np.full(100, 64.0)) is None and size_effect(values, None) is None
    assert size_effect(values, np.repeat([64.0, 96.0, 64.0, 96.0, 64.0], 20)) is None


@pytest.mark.parametrize("count", [40, 300, 2000])
def test_periods_are_not_seen_in_noise_nor_in_wandering(count):
    rng = np.random.default_rng(4)
    steps = rng.standard_normal((100, count))
    wander = np.zeros_like(steps)
    for place in range(1, count):
        wander[:, place] = 0.9 * wander[:, place - 1] + steps[:, place]
    assert sum(find_period(values) is not None for values in (*steps, *wander)) == 0


@pytest.mark.parametrize("length", [7.3, 40.0, 121.7])
def test_a_period_is_found_below_the_noise(length):
    rng = np.random.default_rng(5)
    found = find_period(0.5 * np.sin(2 * np.pi * np.arange(2000) / length + 1) + rng.standard_normal(2000))
    assert found.length == pytest.approx(length, rel=0.01) and found.amplitude == pytest.approx(0.5, rel=0.2)


def test_wandering_is_what_neighbours_share():
    rng = np.random.default_rng(6)
    noise, slow = rng.standard_normal(4000), np.zeros(4000)
    for place in range(1, 4000):
        slow[place] = 0.98 * slow[place - 1] + 0.2 * rng.standard_normal()
    assert wandering_share(noise) == 0
    assert wandering_share(slow + noise) == pytest.approx(slow.var() / (slow.var() + 1), abs=0.06)
