"""Overtaking, stability, guesses of the future, the Pareto front, classes."""

import json

import numpy as np
import pytest
from scipy.optimize import brentq

from tests.report.compare.folders import ours, rising
from yolofast.report.compare.comparison import Asked, compare
from yolofast.report.compare.extrapolation import extrapolate
from yolofast.report.compare.money import pareto
from yolofast.report.compare.overtaking import changes_of_lead
from yolofast.report.compare.read_folder import read_runs


def compared(folder, asked=None, **runs):
    paths = [str(ours(folder / name, **how)) for name, how in runs.items()]
    return compare(read_runs(paths), asked or Asked(groups=("none",)))


def test_a_lead_changes_where_it_changes():
    at = np.arange(1.0, 101.0)
    gap = (50.5 - at) / 500
    assert changes_of_lead(at, gap) == [(51.0, False)]
    noisy = gap + 0.004 * np.random.default_rng(0).standard_normal(100)
    ((place, above),) = changes_of_lead(at, noisy)
    assert not above and abs(place - 51) < 8
    assert changes_of_lead(at, gap + 1) == []


def test_noise_around_nothing_is_no_overtaking():
    """Of 200 epochs half change the sign; hardly any of them for good."""
    gap = 0.004 * np.random.default_rng(1).standard_normal(200) + 0.003
    crossings = int((np.diff(np.sign(gap)) != 0).sum())
    assert len(changes_of_lead(np.arange(200.0), gap)) < crossings / 3


def test_overtaking_by_the_clock(tmp_path):
    """The second goes further, but takes three times as long for an epoch."""
    fast, slow = rising(60, 0.40), np.linspace(0.023, 0.46, 20)
    found = compared(tmp_path, fast={"scores": fast, "seconds": 10}, slow={"scores": slow, "seconds": 30})
    (crossing,) = [one for one in found.overtakings["mAP50-95"] if one.unit == "hours"]
    meet = brentq(lambda t: 0.4 * (1 - np.exp(-t / 150)) - 0.023 * t / 30, 100, 600) / 3600
    assert crossing.ahead == "slow" and crossing.at == pytest.approx(meet, rel=0.03)
    assert not found.at_the_same_time  # both took 600 s


def test_stability_of_the_end(tmp_path):
    calm, wild = np.full(30, 0.4), 0.4 + 0.08 * (-1.0) ** np.arange(30)
    asked = Asked(last=10, groups=("none",))
    found = compared(tmp_path, asked, calm={"scores": calm}, wild={"scores": wild})
    by_name = {one.group: one for one in found.stability if one.column == "mAP50-95"}
    assert by_name["calm"].calm == "very stable" and by_name["calm"].std == 0
    assert by_name["wild"].calm == "variable" and by_name["wild"].std == pytest.approx(0.08)
    assert by_name["wild"].epochs == 10


def test_a_guess_holds_what_really_came():
    """Known courses, of which it sees the first half."""
    epoch = np.arange(1.0, 201.0)
    courses = (
        0.4 * (1 - np.exp(-epoch / 40)),
        0.5 - 0.5 * epoch**-0.3,
        0.1 + 0.05 * np.log(epoch),
    )
    for course in courses:
        guess = extrapolate(epoch[:100], course[:100], 200.0)
        assert guess.low - 0.002 <= course[-1] <= guess.high + 0.002
        assert guess.low >= course[99] and guess.factor == 2


def test_a_longer_way_is_less_certain():
    epoch = np.arange(1.0, 101.0)
    course = 0.5 - 0.5 * epoch**-0.4 + 0.003 * np.random.default_rng(0).standard_normal(100)
    near, far = (extrapolate(epoch, np.maximum.accumulate(course), end) for end in (120.0, 800.0))
    assert far.high - far.low > near.high - near.low


def test_no_guess_from_a_few_epochs():
    assert extrapolate(np.arange(1.0, 6.0), np.linspace(0.1, 0.3, 5), 10.0) is None
    assert extrapolate(np.arange(1.0, 21.0), np.full(20, np.nan), 30.0) is None


def test_front():
    assert pareto([(1, 0.3), (2, 0.4), (3, 0.35), (2, 0.39), (2, 0.4)]) == [True, True, False, False, True]


def test_winners_know_what_is_better(tmp_path):
    found = compared(
        tmp_path, slow={"scores": rising(20, 0.5), "seconds": 20}, fast={"scores": rising(20, 0.4), "seconds": 10}
    )
    winner = {row.name: row.winner for row in found.summary}
    assert winner["mAP50-95"] == 0 and winner["hours"] == 1 and winner["img/s"] == 1 and winner["epochs"] is None
    assert winner["GPU memory, GiB"] is None  # equal
    hours = next(row for row in found.summary if row.name == "hours")
    assert hours.change(1) == pytest.approx(-0.5)


def test_classes_gain_and_lose(tmp_path):
    scores = {"a": (0.30, 0.50), "b": (0.35, 0.40)}
    for name, (cat, dog) in scores.items():
        folder = ours(tmp_path / name, rising(5))
        rows = {"0": {"name": "cat", "ap50": cat, "ap": cat / 2}, "1": {"name": "dog", "ap50": dog, "ap": dog / 2}}
        (folder / "evaluation.json").write_text(json.dumps({"per_class": rows}))
    found = compare(read_runs([str(tmp_path / name) for name in scores]), Asked(groups=("none",)))
    gains = {row.name: row.gain for row in found.classes}
    assert list(gains) == ["cat", "dog"] and gains == pytest.approx({"cat": 0.025, "dog": -0.05})
