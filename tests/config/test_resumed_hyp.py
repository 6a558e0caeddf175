"""A resumed run has the hyper-parameters it began with."""

import pytest

from yolofast.config.resumed import check_same_hyp, check_same_recipe
from yolofast.errors import UserError


def test_the_same_values_in_another_form():
    check_same_hyp({"lr0": 0.01, "anchors": [1, 2]}, {"lr0": 0.01, "anchors": (1, 2)})


def test_an_edited_file():
    with pytest.raises(UserError, match=r"lr0 was 0\.01 and is 0\.02, assigner was None and is 'ota'"):
        check_same_hyp({"lr0": 0.01, "cls": 0.5}, {"lr0": 0.02, "cls": 0.5, "assigner": "ota"})


def test_a_recipe_follows_the_length_of_the_run():
    before = {"model": "yolox-s", "epochs": 10, "warmup_epochs": 1, "degrees": 10.0, "input_size": [64, 64]}
    check_same_recipe(before, {**before, "epochs": 40, "warmup_epochs": 5, "input_size": (64, 64)})
    for changed in ({"warmup_epochs": 5}, {"epochs": 40, "degrees": 3.0}):
        with pytest.raises(UserError, match="have changed since the run began"):
            check_same_recipe(before, {**before, **changed})
