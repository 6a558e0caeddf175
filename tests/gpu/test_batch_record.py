"""A replayed graph writes every batch's row at its place, and nobody waits for it."""

import numpy as np
import pytest
import torch

from tests.gpu.test_gears import ADDED, ADDED_UP, ALONE, batch, make_step
from yolofast.train.gears.gears import EagerGear, GraphGear
from yolofast.train.step import MEASURED, StepRecord


def rows(make, kinds, lr=1e-4):
    step = make_step()
    step.record = StepRecord(torch.device("cuda"), len(kinds))
    gear = make(step)
    for number, kind in enumerate(kinds):
        step.optimizer.set((lr, lr, lr), 0.8)
        step.record.next_is(number)
        gear.run(batch(number), kind)
    return np.array(step.record.read(len(kinds)))


@pytest.mark.parametrize("kinds", [[ALONE] * 4, [ADDED, ADDED_UP] * 2])
def test_a_graph_records_what_eager_does(kinds):
    """With weights that stand still: moving, a young network multiplies the last bit by ten a step."""
    graph, eager = rows(GraphGear, kinds, 0.0), rows(EagerGear, kinds, 0.0)
    np.testing.assert_allclose(graph, eager, rtol=1e-2)
    assert len(set(graph[:, 0])) == len(kinds), "each batch has a row of its own"
    norms = graph[:, MEASURED.index("gradient_norm")]
    assert np.isfinite(norms).tolist() == [kind.updates for kind in kinds]


def test_recording_never_waits_for_the_host():
    step = make_step("bf16")
    step.record = StepRecord(torch.device("cuda"), 4)
    gear, first = GraphGear(step), batch(0)
    step.optimizer.set((1e-3, 1e-3, 1e-3), 0.9)
    for _ in range(2):
        gear.run(first, ALONE)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for number in range(4):
            step.record.next_is(number)
            gear.run(first, ALONE)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert np.isfinite(step.record.read(4)).all()
