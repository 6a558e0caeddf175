"""Nothing follows from hours that count different things, or that other hardware took."""

import pytest

from tests.report.compare.folders import ours, rising, ultralytics
from yolofast.report.compare.comparison import CompareRequest, compare
from yolofast.report.compare.read_folder import read_runs

OF_HOURS = ("hours", "seconds per epoch", "mAP50-95 per hour", "cost at 2 per hour")
CPU = {"gpu": None, "gpus": 0, "cpu_cores": 2, "cpu": "one"}


def compared(*folders):
    return compare(read_runs([str(folder) for folder in folders]), CompareRequest(price=2.0, groups=("none",)))


def pair(folder, one, other):
    """The second is better and three times as fast, so that everything could be said of their hours."""
    slow = ours(folder / "a", rising(20), **{"seconds": 30, "wall": 700, **one})
    return compared(slow, ours(folder / "b", rising(20, 0.5), **{"seconds": 10, "wall": 240, **other}))


def hours_reported(found):
    return [remark for remark in found.remarks if "hours are not comparable" in remark.text]


def winners(found):
    return {row.name: row.winner for row in found.summary}


def nothing_follows(found):
    (remark,) = hours_reported(found)
    assert remark.kind == "not comparable" and not found.at_the_same_time
    assert not any(cost.on_front for cost in found.costs)
    assert all(winners(found)[name] is None for name in OF_HOURS)
    assert [cost.hours for cost in found.costs if cost.cost] and winners(found)["mAP50-95"] == 1  # facts stay
    return remark.text


def test_on_one_machine_everything_follows(tmp_path):
    found = pair(tmp_path, {}, {})
    assert not hours_reported(found) and found.at_the_same_time and not found.hours_differ
    assert [cost.on_front for cost in found.costs] == [False, True] and winners(found)["img/s"] == 1
    assert all(winners(found)[name] == 1 for name in OF_HOURS)


def test_a_resumed_run_has_the_hours_of_training_alone(tmp_path):
    found = pair(tmp_path, {"resume": True}, {})
    assert "those of a are of training alone, those of b of everything" in nothing_follows(found)
    assert winners(found)["img/s"] == 1  # that of training, which both have
    both = pair(tmp_path / "both", {"resume": True}, {"resume": True})
    assert both.at_the_same_time and not hours_reported(both)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"gpu": "H200"}, {"gpu": "A100"}, "different hardware (gpu): H200 (a), A100 (b)"),
        ({"gpu": "H200", "gpus": 1}, CPU, "different hardware (gpu): H200 (a), no GPU (b)"),
        ({"gpus": 1}, {"gpus": 2}, "different hardware (gpus): 1 (a), 2 (b)"),
        ({"cpu_cores": 4}, {"cpu_cores": 16}, "different hardware (cpu_cores): 4 (a), 16 (b)"),
        (CPU, {**CPU, "cpu": "other"}, "different hardware (cpu): one (a), other (b)"),
    ],
)
def test_other_hardware(tmp_path, one, other, words):
    found = pair(tmp_path, {"environment": one}, {"environment": other})
    assert words in nothing_follows(found)
    rows = {row.name: row.remark for row in found.summary}
    assert all(rows[name] == "other hardware" for name in (*OF_HOURS, "it/s", "img/s", "wait for data, %"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"cpu": "one"}, {"cpu": "other"}),  # beside the same card
        (CPU, CPU),
        ({"gpus": 1}, {}),  # silence
    ],
)
def test_the_same_hardware(tmp_path, one, other):
    found = pair(tmp_path, {"environment": one}, {"environment": other})
    assert not hours_reported(found) and found.at_the_same_time


def test_cards_that_were_used_count(tmp_path):
    several = {"gpus": 8}
    found = pair(tmp_path, {"device": "0", "environment": several}, {"device": "0,1,2,3", "environment": several})
    assert "different hardware (gpus): 1 (a), 4 (b)" in nothing_follows(found)
    alike = pair(
        tmp_path / "alike", {"device": "3", "environment": several}, {"device": "", "environment": {"gpus": 1}}
    )
    assert not hours_reported(alike) and alike.at_the_same_time


def test_a_card_that_was_not_used(tmp_path):
    found = pair(tmp_path, {"device": "cpu"}, {"device": "0"})
    assert "different hardware (gpu): no GPU (a), card (b)" in nothing_follows(found)


def test_a_folder_that_does_not_say_its_hardware(tmp_path):
    one = ours(tmp_path / "a", rising(20), wall=700, data="coco.yaml", environment=CPU)
    assert not hours_reported(compared(one, ultralytics(tmp_path / "b", rising(20, 0.5))))


def test_by_hours_nobody_overtakes_on_other_hardware(tmp_path):
    """The runs of `test_overtaking_by_the_clock`, as they are and on two cards."""
    for name, crossings in (("card", 1), ("other", 0)):
        fast = ours(tmp_path / name / "fast", rising(60, 0.40), seconds=10)
        scores = [0.023 * (epoch + 1) for epoch in range(20)]
        slow = ours(tmp_path / name / "slow", scores, seconds=30, environment={"gpu": name})
        listed = compared(fast, slow).overtakings["mAP50-95"]
        assert len([one for one in listed if one.unit == "hours"]) == crossings


def test_kinds_on_one_machine_are_compared_beside_a_third(tmp_path):
    places = (("a", 30, "card"), ("b", 10, "card"), ("c", 20, "other"))
    runs = [
        ours(tmp_path / name, rising(20, 0.4 + pace / 100), seconds=pace, environment={"gpu": gpu})
        for name, pace, gpu in places
    ]
    found = compared(*runs)
    assert {(one.group, one.finished) for one in found.at_the_same_time} == {("a", "b"), ("b", "a")}
    assert winners(found)["hours"] is None and not any(cost.on_front for cost in found.costs)


def test_a_run_that_does_not_count_makes_nothing_incomparable(tmp_path):
    """The copy of a run is left out of its kind, wherever it was made."""
    one, other = ours(tmp_path / "a", rising(20), seconds=30), ours(tmp_path / "b", rising(20, 0.5), mixup=0.1)
    again = ours(tmp_path / "c", rising(20), seconds=30, environment={"cpu_cores": 3})
    for folder in (one, other):
        (folder / "env.json").write_text('{"torch": "2.8", "gpu": "card", "cpu_cores": 2}')
    found = compare(read_runs([str(one), str(again), str(other)]), CompareRequest(price=2.0))
    assert found.left_out == {"c": "a copy of a"} and not hours_reported(found) and winners(found)["hours"] == 1


def test_there_is_one_figure_per_hour(tmp_path):
    """0.3 in 0.1 h and 0.3 in 0.3 h are 3 and 1 per hour, 2 in the mean; 0.3 by 0.2 h would be 1.5."""
    runs = [ours(tmp_path / f"a{pace}", [pace / 100, 0.3], seconds=180.0 * pace) for pace in (1, 3)]
    other = ours(tmp_path / "b", [0.1, 0.4], mixup=0.1)
    found = compare(read_runs([str(folder) for folder in (*runs, other)]), CompareRequest(groups=("a*", "b")))
    row = next(row for row in found.summary if row.name == "mAP50-95 per hour")
    assert row.values[0].mean == pytest.approx(2.0)
    assert [cost.accuracy_per_hour for cost in found.costs] == [value.mean for value in row.values]
