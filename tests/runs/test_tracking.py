"""What tracking scores and mAP of epochs say beside each other, and what cannot be said."""

import pytest

from yolofast.runs.tracking import SCORES, agreement, read_tracking


def said(scores, maps):
    """Of epochs from 1 on, each with the same value in every score."""
    rows = [{"epoch": at, "weights": f"e{at}.pt", **dict.fromkeys(SCORES, one)} for at, one in enumerate(scores, 1)]
    found = agreement(read_tracking({"by": "HOTA", "sequences": ["a"], "epochs": rows}), range(1, len(maps) + 1), maps)
    return found.words(), found.agrees


@pytest.mark.parametrize(
    ("scores", "maps", "first", "second", "agrees"),
    [
        ((0.5, 0.6), (0.1, 0.2), "best by HOTA is epoch 2 (e2.pt)", "the same epoch as HOTA, IDF1 and MOTA", True),
        ((0.6, 0.5), (0.1, 0.2), "best by HOTA is epoch 1", "HOTA chooses epoch 1, mAP50-95 epoch 2", False),
        ((0.0, 0.0), (0.1, 0.2), "no epoch is best by HOTA, all have HOTA 0.00", "they choose none of them", False),
        ((0.5, 0.6), (0.2, 0.2), "best by HOTA is epoch 2", "mAP50-95 is the same for all epochs", False),
        ((0.5,), (0.2,), "1 epoch tracked on 1 sequence: epoch 1 (e1.pt)", "nothing to choose between", False),
    ],
)
def test_only_what_can_be_said(scores, maps, first, second, agrees):
    lines, agreed = said(scores, maps)
    assert first in lines[0] and second in lines[1] and agreed is agrees


def test_without_map_nothing_is_compared():
    lines, agreed = said((0.5, 0.6), ())
    assert len(lines) == 1 and not agreed
