"""Gears on the GPU: a replayed graph and a compiled step do what the step as written does."""

import pytest
import torch

from tests.gpu.problems import HYP, targets
from yolofast import build_loss, build_model
from yolofast.engine.gears import CompiledGear, EagerGear, GraphGear
from yolofast.engine.precision import Precision
from yolofast.engine.step import StepKind, TrainStep
from yolofast.optim.ema import ModelEma
from yolofast.optim.groups import parameter_groups
from yolofast.optim.sgd import Sgd
from yolofast.structures import Batch

BATCH, SIZE, NC = 8, 128, 20
ALONE, ADDED, ADDED_UP = StepKind(False, True), StepKind(True, False), StepKind(True, True)


def make_step(precision="fp32"):
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    model = build_model("yolov7-tiny", nc=NC).cuda().to(memory_format=torch.channels_last).train()
    optimizer = Sgd(parameter_groups(model, 0.0005))
    return TrainStep(
        model, build_loss(model, HYP, SIZE), optimizer, ModelEma(model), Precision.choose(precision, "cuda")
    )


def batch(seed, size=BATCH):
    images = torch.rand(size, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(seed)).cuda()
    return Batch(images.contiguous(memory_format=torch.channels_last), targets(size, 6, NC, "cuda", seed, 16), None)


def run(step, gear, kinds, sizes=None):
    for number, kind in enumerate(kinds):
        step.optimizer.set((1e-3 * number, 2e-3, 1e-2), 0.8 + 0.01 * number)
        gear.run(batch(number, (sizes or {}).get(number, BATCH)), kind)
    return [tensor.clone() for tensor in step.tensors()]


def assert_close(first, second, rtol):
    for a, b in zip(first, second, strict=True):
        if a.is_floating_point():
            assert (a - b).norm() <= rtol * b.norm() + 1e-6


@pytest.mark.parametrize(
    "kinds", [[ALONE] * 6, [ADDED, ADDED_UP] * 3, [ALONE, ALONE, ADDED, ADDED_UP, ADDED, ADDED_UP]]
)
def test_a_graph_trains_as_eager_does(kinds):
    eager, graph = make_step(), make_step()
    assert_close(run(graph, GraphGear(graph, BATCH), kinds), run(eager, EagerGear(eager), kinds), 1e-4)


def test_a_short_batch_between_replays():
    eager, graph = make_step(), make_step()
    sizes, kinds = {2: 3, 4: 5}, [ALONE] * 6
    assert_close(run(graph, GraphGear(graph, BATCH), kinds, sizes), run(eager, EagerGear(eager), kinds, sizes), 1e-4)


def test_a_replay_never_waits_for_the_host():
    step = make_step("bf16")
    gear = GraphGear(step, BATCH)
    first = batch(0)
    gear.run(first, ALONE)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for number in range(3):
            step.optimizer.set((1e-3 * number, 2e-3, 1e-2), 0.9)
            gear.run(first, ALONE)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert step.losses.bad_steps == 0


def test_the_compiled_step_trains_as_eager_does():
    torch._dynamo.reset()
    eager, compiled = make_step(), make_step()
    # Rounding differs, and training multiplies it: two steps are enough to see that all parts are there.
    assert_close(run(compiled, CompiledGear(compiled), [ALONE] * 2), run(eager, EagerGear(eager), [ALONE] * 2), 1e-2)
