"""Overtaking, stability, guesses of the future, the Pareto front, classes."""

import json

import numpy as np
import pytest
from scipy.optimize import brentq

from tests.report.compare.folders import ours, rising
from yolofast.report.compare.comparison import CompareRequest, compare
from yolofast.report.compare.figures import ComparedClass
from yolofast.report.compare.money import extrapolate, pareto
from yolofast.report.compare.overtaking import changes_of_lead
from yolofast.report.compare.read_folder import read_runs


def compared(folder, requested=None, **runs):
    paths = [str(ours(folder / name, **how)) for name, how in runs.items()]
    return compare(read_runs(paths), requested or CompareRequest(groups=("none",)))


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
    requested = CompareRequest(last=10, groups=("none",))
    found = compared(tmp_path, requested, calm={"scores": calm}, wild={"scores": wild})
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


@pytest.mark.parametrize("over", [False, True])
def test_a_guess_begins_at_the_end_of_the_run(over):
    """A cosine's course: steep, then flat. A hair more epochs are worth a hair more, whatever the fit says before."""
    epoch = np.arange(1.0, 101.0)
    course = np.maximum.accumulate(0.16 * np.sin(np.minimum(epoch, 92) / 92 * np.pi / 2) ** 2)
    guess = extrapolate(epoch, course, 100.01, schedule_over=over)
    assert guess.value == pytest.approx(0.16, abs=1e-4)
    assert guess.low <= 0.16 if over else guess.low >= 0.16


def test_no_guess_where_the_run_itself_could_not_be_guessed():
    """Nothing for 60 epochs, then everything: seen from the beginning this could not be known."""
    epoch = np.arange(1.0, 101.0)
    course = np.where(epoch < 60, 0.001 * epoch, 0.4)
    assert extrapolate(epoch, course, 200.0) is None


def test_no_guess_further_ahead_than_could_be_tried():
    """Of 20 epochs 6 are shown at least, so 3.3 times is what can be tried."""
    assert extrapolate(np.arange(1.0, 21.0), rising(20), 120.0) is not None
    assert extrapolate(np.arange(1.0, 21.0), rising(20), 200.0) is None


def test_best_so_far_ends_with_the_summary(tmp_path):
    """The best epochs of the runs differ, so the best of the mean curve (0.25) is not the mean of the best (0.35)."""
    scores = {"a": [0.1, 0.4, 0.2, 0.2], "b": [0.1, 0.1, 0.3, 0.2]}
    found = compared(
        tmp_path, CompareRequest(groups=("all=*",)), **{name: {"scores": values} for name, values in scores.items()}
    )
    row = next(row for row in found.summary if row.name == "mAP50-95")
    assert found.curves[0].best["mAP50-95"] == pytest.approx([0.1, 0.25, 0.35, 0.35])
    assert row.values[0].mean == pytest.approx(0.35)


def test_the_wait_for_data_is_that_of_the_whole_run(tmp_path):
    """An epoch of 30 s that waits half of it, then two of 10 s that wait none: 30 % of the time."""
    folder = ours(tmp_path / "a", rising(3))
    head, *rows = (folder / "results.csv").read_text().splitlines()
    for place, (seconds, wait) in enumerate(((30, 0.5), (40, 0.0), (50, 0.0))):
        cells = rows[place].split(",")
        cells[1], cells[-2] = str(seconds), str(wait)
        rows[place] = ",".join(cells)
    (folder / "results.csv").write_text("\n".join([head, *rows, ""]))
    runs = read_runs([str(folder), str(ours(tmp_path / "b", rising(3, 0.41)))])
    row = next(row for row in compare(runs, CompareRequest(groups=("none",))).summary if row.name == "wait for data, %")
    assert [value.mean for value in row.values] == pytest.approx([30.0, 10.0])


def test_those_that_tie_are_named(tmp_path):
    runs = {name: {"scores": rising(5, top), "seconds": pace} for name, top, pace in (("a", 0.4, 10), ("b", 0.41, 10))}
    found = compared(tmp_path, **runs, c={"scores": rising(5, 0.42), "seconds": 20})
    remarks = {row.name: row.remark for row in found.summary}
    assert remarks["hours"] == "equal: a, b" and remarks["GPU memory, GiB"] == "equal"


def test_what_was_not_measured_is_said(tmp_path):
    found = compared(tmp_path, a={"scores": rising(5)}, b={"scores": rising(5, 0.41)})
    row = next(row for row in found.summary if row.name == "GPU busy, %")
    assert row.values == (None, None) and row.remark == "not measured (--profile-every)"


@pytest.mark.parametrize(("gpus", "words"), [(1, "not measured (yolofast[gpu] is missing)"), (0, "no GPU")])
def test_what_could_not_be_measured_is_not_asked_for_again(tmp_path, gpus, words):
    """Both runs had --profile-every."""
    folders = [
        ours(tmp_path / name, rising(5, top), environment={"gpus": gpus}) for name, top in (("a", 0.4), ("b", 0.41))
    ]
    for folder in folders:
        (folder / "profile.json").write_text('{"phases": [{"name": "forward", "mean_ms": 1.0}], "gpu_busy": null}')
    found = compare(read_runs([str(folder) for folder in folders]), CompareRequest(groups=("none",)))
    assert next(row.remark for row in found.summary if row.name == "GPU busy, %") == words


@pytest.mark.parametrize(("pace", "listed"), [(10.6, ["slow"]), (11.0, ["slow", "fast"])])
def test_time_for_less_than_another_epoch_is_not_spoken_of(tmp_path, pace, listed):
    """The fast one did 6 epochs. In 63.6 s it could have done 6.4, in 66 s 6.6, which is 7."""
    runs = {"fast": {"scores": rising(6), "seconds": 10}, "slow": {"scores": rising(6, 0.41), "seconds": pace}}
    assert [one.group for one in compared(tmp_path, **runs).at_the_same_time] == listed


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
    found = compare(read_runs([str(tmp_path / name) for name in scores]), CompareRequest(groups=("none",)))
    gains = {row.name: row.gain for row in found.classes}
    assert list(gains) == ["cat", "dog"] and gains == pytest.approx({"cat": 0.025, "dog": -0.05})


def test_classes_have_a_spread_where_runs_were_repeated(tmp_path):
    aps = {"a0": 0.20, "a1": 0.30, "b0": 0.28, "b1": 0.30, "c0": 0.50, "c1": 0.52}
    for place, (name, ap) in enumerate(aps.items()):
        folder = ours(tmp_path / name, rising(5, 0.4 + place / 100))
        rows = {"0": {"name": "cat", "ap50": ap, "ap": ap}}
        (folder / "evaluation.json").write_text(json.dumps({"per_class": rows}))

    def cat(*kinds):
        paths = [str(tmp_path / name) for name in aps if name[0] in kinds]
        return compare(read_runs(paths), CompareRequest(groups=tuple(f"{kind}*" for kind in kinds))).classes[0]

    within, beyond = cat("a", "b"), cat("a", "c")
    assert within.ap_std == pytest.approx((0.05 * 2**0.5, 0.01 * 2**0.5)) and not within.beyond_spread
    assert beyond.gain == pytest.approx(0.26) and beyond.beyond_spread


def test_without_repeated_runs_of_both_no_gain_is_beyond_the_spread():
    """An unknown spread is not a spread of 0."""
    for stds in ((None, None), (0.01, None), (None, 0.01), (None, 0.01, None)):
        means = (0.1, *(0.5 for _ in stds[1:]))
        assert not ComparedClass("cat", means, means, stds, stds).beyond_spread
    assert ComparedClass("cat", (0.1, 0.5), (0.1, 0.5), (0.01, 0.01), (0.01, 0.01)).beyond_spread
