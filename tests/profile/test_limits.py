from dataclasses import replace

import pytest

from tests.profile.figures import made_up
from yolofast.profile.bottlenecks import ARITHMETIC, BUS, MEMORY, limits
from yolofast.profile.records import Ceilings, Work


def test_the_largest_floor_is_the_limit():
    profile = made_up()  # a step of 10 ms
    nearest, other = limits(profile)
    assert (nearest.name, nearest.floor_ms, nearest.reached) == (ARITHMETIC, pytest.approx(5), pytest.approx(0.5))
    assert (other.name, other.floor_ms) == (MEMORY, pytest.approx(2))
    assert nearest.achieved == pytest.approx(4e14)


def test_bytes_over_the_bus_count_where_there_are_any():
    ceilings = Ceilings(flops=1e15, bytes=4e12, sent_bytes=5e10)
    profile = replace(made_up(), work=Work(flops=1e9, bytes=1e9, sent_bytes=4e8), ceilings=ceilings)
    assert limits(profile)[0].name == BUS
    assert limits(profile)[0].floor_ms == pytest.approx(8)


def test_nothing_counted_nothing_said():
    assert limits(replace(made_up(), work=None)) == ()
