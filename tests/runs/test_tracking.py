"""What tracking scores and mAP of epochs say beside each other, and what cannot be said."""

import pytest

from yolofast.runs.tracking import SCORES, agreement, read_tracking, tracked_differently


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


@pytest.mark.parametrize(
    ("behind", "added"),
    [
        ({"epoch": 1, "interval": [0.02, 0.19]}, "10.00 points less HOTA (95 % over sequences: 2.00 to 19.00), "),
        ({"epoch": 1, "interval": [-0.01, 0.19]}, "(95 % over sequences: -1.00 to 19.00, so perhaps none), "),
        ({"epoch": 3, "interval": [0.02, 0.19]}, "10.00 points less HOTA, "),
        ({"epoch": 1, "interval": [0.02, None]}, "10.00 points less HOTA, "),
        ("x", "10.00 points less HOTA, "),
    ],
)
def test_how_sure_a_disagreement_is(behind, added):
    """Of the score that was asked for, and only if it is this very pair of epochs that was compared."""
    rows = [{"epoch": 1, **dict.fromkeys(SCORES, 0.6)}, {"epoch": 2, **dict.fromkeys(SCORES, 0.5), "behind": behind}]
    found = agreement(read_tracking({"by": "HOTA", "epochs": rows}), (1, 2), (0.1, 0.2))
    hota, idf1, _ = found.disagreements
    assert added in hota.words() and "10.00 points less IDF1, " in idf1.words()


def test_runs_that_were_tracked_differently_are_told():
    """The sequences of both are called alike, but hold other things."""
    content = {
        "by": "HOTA", "sequences": ["a"], "truth": "1f", "retuned": False, "searched": [{"tracker": "botsort"}],
        "epochs": [{"epoch": 1, **dict.fromkeys(SCORES, 0.5)}],
    }  # fmt: skip
    changed = [{}, {"truth": "2e"}, {"searched": [{"tracker": "ocsort"}], "retuned": True}, {"benchmark": "mot17"}]
    runs = {f"run {at}": agreement(read_tracking(content | more), (1,), (0.1,)) for at, more in enumerate(changed)}
    assert tracked_differently({name: runs[name] for name in ("run 0",)}) is None
    assert tracked_differently({"run 0": runs["run 0"], "again": runs["run 0"]}) is None
    said = tracked_differently({name: runs[name] for name in ("run 0", "run 1")})
    assert said == "the runs were tracked with other sequences: a score of one is no measure for another"
    assert "with other sequences, other settings and another benchmark:" in tracked_differently(runs)
