import math

import pytest

from yolofast.words import amount, clock, counted, duration, seconds_of


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3600, "1:00:00")])
def test_clock(seconds, text):
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.26, "4.3 s"), (61, "1 min 1 s"), (7380, "2 h 3 min"), (-1, "unknown"), (math.nan, "unknown")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_durations_are_read():
    given = {"3h50m": 13_800, "90m": 5400, "1d12h": 129_600, "45s": 45, " 1.5h ": 5400, "50m3h": 0}
    assert {text: seconds_of(text) for text in given} == given


def test_how_many_and_how_much():
    assert [counted(count, "epoch") for count in (0, 1, 1000)] == ["0 epochs", "1 epoch", "1,000 epochs"]
    assert [counted(count, "class") for count in (1, 2)] == ["1 class", "2 classes"]
    assert [amount(count) for count in (500, 2.5e6, 1e9, 3e12)] == ["0.5 kB", "2.5 MB", "1.0 GB", "3.0 TB"]
