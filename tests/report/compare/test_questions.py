"""Answers from runs that differ in what is asked and nothing else; and none from any other."""

import pytest

from tests.report.compare.folders import ours, rising
from yolofast.report.compare.comparison import CompareRequest, compare
from yolofast.report.compare.read_folder import read_runs

LOW, HIGH = (0.30, 0.301, 0.302), (0.32, 0.321, 0.322)
NEAR = (0.3005, 0.302, 0.3)


def folders(folder, name, tops, seconds=10, **settings):
    return [
        ours(folder / f"{name}{seed}", rising(12, top), seed=seed, seconds=seconds + seed / 100, **settings)
        for seed, top in enumerate(tops)
    ]


def answers(*made):
    found = compare(read_runs([str(one) for kind in made for one in kind]), CompareRequest())
    return {one.use: one for one in found.uses if one.use.startswith(("who", "the size", "the batch", "workers"))}


def test_a_better_assigner_is_named_with_its_interval_and_its_cost(tmp_path):
    ota, tal = folders(tmp_path, "ota", LOW), folders(tmp_path, "tal", HIGH, seconds=15, assigner="tal")
    (found,) = answers(ota, tal).values()
    assert found.use == "who assigns boxes, ota or tal" and found.take == "tal"
    assert found.why.startswith(
        "these 3 and 3 runs: mAP50-95 0.3151 ± 0.0010 against 0.2955 ± 0.0010, +0.0196, with 95 %"
    )
    assert found.why.endswith("tal takes 1.50× the hours")


def test_equal_cost_is_said_and_so_are_epochs(tmp_path):
    ota = folders(tmp_path, "ota", HIGH, epochs=12)
    anchor = [
        ours(tmp_path / f"anchor{n}", rising(36, top), seed=n, seconds=3.4 + n / 100, assigner="anchor", epochs=36)
        for n, top in enumerate(LOW)
    ]
    (found,) = answers(ota, anchor).values()
    assert found.use == "who assigns boxes, ota for 12 epochs or anchor for 36 epochs" and found.take == "ota"
    assert "at equal cost, anchor takes 1.02× the hours" in found.why


@pytest.mark.parametrize(
    ("seconds", "take", "word"), [(5, "large", "and it takes less time"), (10, "either", "chance. ")]
)
def test_within_chance_the_time_decides_if_it_differs(tmp_path, seconds, take, word):
    small, large = (
        folders(tmp_path, "small", LOW),
        folders(tmp_path, "large", NEAR, seconds, batch_size=128, auto_lr=True),
    )
    (found,) = answers(small, large).values()
    assert found.use == "the batch, batch 50 or batch 128" and found.take == take
    assert found.why.startswith("no difference beyond chance") and word in found.why


def test_each_size_counts_as_it_was_evaluated(tmp_path):
    """Otherwise different sizes are no comparison: a setting moves mAP. Here that is what is asked."""
    small, large = (folders(tmp_path, f"at{n}-", tops, img_size=[n]) for n, tops in ((320, LOW), (640, HIGH)))
    (found,) = answers(small, large).values()
    assert found.use == "the size of images, 320 pixels or 640 pixels" and found.take == "at640"


def test_nothing_is_answered_where_more_differs_or_nothing_was_repeated(tmp_path):
    ota = folders(tmp_path, "ota", LOW)
    assert not answers(ota, folders(tmp_path, "tal", HIGH, assigner="tal", mixup=0.3))
    assert not answers(ota, folders(tmp_path, "new", HIGH, assigner="tal", environment={"torch": "2.9"}))
    assert not answers(ota[:1], folders(tmp_path, "one", HIGH[:1], assigner="tal"))
    assert not answers(ota, folders(tmp_path, "mixed", HIGH, mixup=0.3))


def test_the_fewest_workers_that_are_about_as_quick(tmp_path):
    made = [
        folders(tmp_path, f"w{n}-", (0.3 + n / 1e4,), s, workers=n) for n, s in ((2, 20), (4, 10.5), (8, 10), (16, 11))
    ]
    (found,) = answers(*made).values()
    assert found.use.startswith("workers at batch 50") and found.take == "w4-0"
    assert found.why.startswith("2: 50 img/s, 10 % of the time without data; 4: 95 img/s")
    other = folders(tmp_path, "other", (0.31,), 5, workers=1, environment={"gpu": "another"})
    assert not answers(made[0], other), "paces of other hardware"
