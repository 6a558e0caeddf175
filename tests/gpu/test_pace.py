"""How far the host is ahead of the GPU, and that it sleeps meanwhile."""

import time

import pytest
import torch

from yolofast.train.gears.gears import Pace

CYCLES_PER_MS = 1_500_000
"""About: an H200 has up to 1.98 GHz."""


@pytest.mark.parametrize(("milliseconds", "unfinished"), [(10, 2), (100, 1)])
def test_short_steps_are_queued_further_ahead_than_long_ones(milliseconds, unfinished):
    pace, ends = Pace(torch.device("cuda")), []
    for _ in range(24):
        torch.cuda._sleep(milliseconds * CYCLES_PER_MS)
        ends.append(torch.cuda.Event())
        ends[-1].record()
        pace.step_queued()
    assert sum(not end.query() for end in ends) == unfinished
    assert pace.step_seconds == pytest.approx(milliseconds / 1e3, rel=0.5)


def test_the_host_sleeps_while_it_waits():
    pace = Pace(torch.device("cuda"))
    begun, used = time.perf_counter(), time.process_time()
    for _ in range(40):
        torch.cuda._sleep(20 * CYCLES_PER_MS)
        pace.step_queued()
    assert time.process_time() - used < 0.2 * (time.perf_counter() - begun)
