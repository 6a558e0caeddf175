"""Whichever way a run says its assigner, it is one setting."""

import pytest

from yolofast.runs.settings import settings_in_effect
from yolofast.train.losses.loss_schedule import AssignerSchedule

SWITCH = [[0, "anchor"], [70, "ota"]]


@pytest.mark.parametrize(
    ("hyp", "args", "assigner"),
    [
        ({"loss_ota": 1}, {"assigner": None, "ota_from_epoch": None}, "ota"),
        ({"loss_ota": 0}, {"assigner": None}, "anchor"),
        ({"loss_ota": 1, "assigner": "ota"}, {"assigner": "ota"}, "ota"),
        ({"loss_ota": 1, "assigner": "tal"}, {"assigner": None}, "tal"),
        ({"loss_ota": 1, "assigner": SWITCH}, {"assigner": None}, SWITCH),
        ({"loss_ota": 1, "assigner": [[0, "tal"]]}, {}, "tal"),
        ({"loss_ota": 1}, {"assigner": None, "ota_from_epoch": 70}, SWITCH),
        ({"loss_ota": 1}, {"assigner": None, "ota_from_epoch": 0}, "ota"),
    ],
)
def test_it_is_the_one_that_training_takes(hyp, args, assigner):
    found = settings_in_effect(hyp | {"lr0": 0.01}, args | {"seed": 3})
    assert found == {"lr0": 0.01, "seed": 3, "assigner": assigner}
    steps = AssignerSchedule.from_hyp(hyp, args.get("ota_from_epoch")).steps
    assert [list(step) for step in steps] == (assigner if isinstance(assigner, list) else [[0, assigner]])


@pytest.mark.parametrize(("named", "assigner"), [(None, "simota"), ("simota", "simota"), ("tal", "tal")])
def test_yolox_has_its_own(named, assigner):
    assert settings_in_effect({"simota_version": "current"}, {"assigner": named})["assigner"] == assigner


def test_where_nothing_says_it_nothing_is_said():
    assert settings_in_effect({}, {"lr0": 0.01, "batch": 16}) == {"lr0": 0.01, "batch": 16}


def test_a_flag_that_is_not_set_overrules_nothing():
    found = settings_in_effect({"mixup": 0.1, "mosaic": 1.0}, {"mixup": None, "mosaic": 0.5, "patience": None})
    assert found == {"mixup": 0.1, "mosaic": 0.5, "patience": None}


@pytest.mark.parametrize("odd", [[], ["ota"], [[]], [[0, 1]], {"a": 1}, 3, [["ota"] * 2] * 200])
def test_other_forms_are_left_as_they_are(odd):
    assert settings_in_effect({"assigner": odd}, {})["assigner"] == odd
