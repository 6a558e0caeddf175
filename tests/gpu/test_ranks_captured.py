"""NCCL within a captured step: a group of one rank learns what a process without a group does, to the bit."""

import pytest
import torch
import torch.distributed as dist

from tests.gpu.test_gears import ADDED, ADDED_UP, ALONE, BATCH, asks_the_host, batch, make_step
from yolofast.ranks import each_for_itself
from yolofast.train.distributed.averaged_step import distribute
from yolofast.train.distributed.join import group_of_one
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.gears.gears import EagerGear

KINDS = [ALONE] * 4 + [ADDED, ADDED_UP] * 4
GPU = torch.device("cuda", 0)


def trained(make_gear, kinds, precision="bf16"):
    """The loss of each step, the weights, and sums begun by the host in each step."""
    step, losses, begun, all_reduce = make_step(precision), [], [], dist.all_reduce
    if dist.is_initialized():
        distribute(step)
    gear = make_gear(step)

    def noted(tensor, *args, **more):
        begun[-1] += tensor.is_cuda
        return all_reduce(tensor, *args, **more)

    dist.all_reduce = noted
    try:
        for number, kind in enumerate(kinds):
            begun.append(0)
            step.optimizer.set((1e-3, 2e-3, 1e-2), 0.8)
            step.losses.reset()
            gear.run(batch(number), kind)
            losses.append(step.losses.means()["total"])
    finally:
        dist.all_reduce = all_reduce
    assert step.losses.bad_steps == 0
    now = getattr(gear, "now", "eager")
    if isinstance(gear, GearBox):
        gear.close()
    return losses, [tensor.clone() for tensor in step.tensors()], begun, now


def graph_box(step):
    """Inside a group its ranks meet, and the first step runs as written."""
    box = GearBox(step, "graph", BATCH, 100, print, one_shape=False)
    box.compile_nothing()
    return box


def assert_same_bits(one, other):
    assert one[0] == other[0]
    assert all(torch.equal(a, b) for a, b in zip(one[1], other[1], strict=True))


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_gradients_added_up_in_a_graph_are_those_of_one_process(precision):
    """Counts are its own here: those of the whole batch divide in another order."""
    alone = trained(graph_box, KINDS, precision)
    assert_same_bits(trained(graph_box, KINDS, precision), alone)
    with group_of_one(GPU), each_for_itself():
        found = trained(graph_box, KINDS, precision)
    assert found[3] == alone[3] == "graph"
    assert_same_bits(found, alone)


def test_a_replay_asks_the_host_for_no_sum():
    """What comes first runs as written, what comes again is captured, and then replayed."""
    with group_of_one(GPU), each_for_itself():
        begun = trained(graph_box, [ALONE] * 6)[2]
    assert begun[0] == begun[1] > 1 and begun[2:] == [0] * 4


def test_counts_of_the_whole_batch_are_added_up_in_a_graph_too():
    with group_of_one(GPU):
        captured = trained(graph_box, KINDS)
        written = trained(lambda step: EagerGear(step, worth_tuning=lambda batch: False), KINDS)
    assert captured[3] == "graph"
    assert_same_bits(captured, written)
    assert captured[0][0] == pytest.approx(trained(graph_box, KINDS[:1])[0][0], rel=1e-5)


def test_a_step_that_cannot_be_captured_runs_as_written():
    said = []
    with group_of_one(GPU):
        step = asks_the_host(make_step("bf16"))
        distribute(step)
        box = GearBox(step, "graph", BATCH, 100, said.append, one_shape=False)
        for number in range(4):
            box.run(batch(number), ALONE)
        assert box.now == "eager" and len(said) == 1 and "all ranks continue in a lower gear" in said[0], said
        assert step.losses.bad_steps == 0
        box.close()
