"""A resumed run has the hyper-parameters it began with."""

import pytest

from yolofast.config.resume import check_same_hyp
from yolofast.errors import UserError


def test_the_same_values_in_another_form():
    check_same_hyp({"lr0": 0.01, "anchors": [1, 2]}, {"lr0": 0.01, "anchors": (1, 2)})


def test_an_edited_file():
    with pytest.raises(UserError, match=r"lr0 was 0\.01 and is 0\.02, assigner was None and is 'ota'"):
        check_same_hyp({"lr0": 0.01, "cls": 0.5}, {"lr0": 0.02, "cls": 0.5, "assigner": "ota"})
