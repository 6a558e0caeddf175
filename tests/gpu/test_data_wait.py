"""A batch that comes late costs what the GPU idles for, and not what the host waits."""

import time

import pytest
import torch

from tests.gpu.test_pace import CYCLES_PER_MS
from yolofast.train.timing import DataWait, clock_for

LATE = 0.05


@pytest.mark.parametrize(("queued_ms", "least", "most"), [(0, LATE, 1.5 * LATE), (200, 0.0, 0.001)])
def test_a_late_batch(queued_ms, least, most):
    wait = DataWait(clock_for(torch.device("cuda")))
    torch.cuda.synchronize()
    if queued_ms:
        torch.cuda._sleep(queued_ms * CYCLES_PER_MS)
    with wait.timed():
        time.sleep(LATE)
    if queued_ms:
        assert wait.seconds == 0, "nobody waits for it to be known"
    torch.cuda.synchronize()
    assert 0.98 * least <= wait.seconds <= most


def test_a_batch_that_is_made_on_another_stream():
    wait, side = DataWait(clock_for(torch.device("cuda"))), torch.cuda.Stream()
    torch.cuda.synchronize()
    with wait.timed():
        with torch.cuda.stream(side):
            torch.cuda._sleep(50 * CYCLES_PER_MS)
        torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    assert 0.02 < wait.seconds < 0.2
