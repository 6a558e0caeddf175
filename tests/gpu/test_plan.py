"""Phases on the GPU: captured graphs follow them, and frozen layers save time and memory."""

from itertools import pairwise

import torch

from tests.gpu.test_gears import ALONE, NC, assert_close, batch, make_step
from tests.train.small_run import flags
from yolofast import build_model
from yolofast.cli import main
from yolofast.optim.optimizer import parameter_groups
from yolofast.train.finetune.freeze_plan import make_plan
from yolofast.train.finetune.phased_training import PhasedTraining
from yolofast.train.finetune.plan_file import PhaseSpec, PlanSpec
from yolofast.train.gears.compiling import compiled_loss_of
from yolofast.train.gears.gears import EagerGear, GraphGear

PHASES = (
    PhaseSpec(until=1, freeze=(74,)),
    PhaseSpec(until=2, freeze=(29,), lr=0.5),
    PhaseSpec(lr_factors=(("neck", 0.1),)),
)


SMALL_PHASES = (PhaseSpec(until=1, train=("head",)), PhaseSpec(until=2, train=("head", "neck")), PhaseSpec())


def trained(gear_of, network="yolov7-tiny", phases=PHASES, after_epoch=lambda model: None):
    step = make_step(network=network)
    plan = make_plan(PlanSpec(name="test", phases=phases), step.model, 3)
    plan.phases[0].freeze(step.model)
    step.learn_what_requires_it(step.optimizer.regrouped(_groups(step)))
    training, gear = PhasedTraining(plan, step.model, step, lambda text: None), gear_of(step)
    for epoch in range(3):
        step.model.train()
        training.start_epoch(epoch)
        for number in range(4):
            step.optimizer.set([0.01 * pace.rate for pace in training.phase.paces for _ in range(3)], 0.9)
            gear.run(batch(4 * epoch + number), ALONE)
        after_epoch(step.model)
    return [tensor.clone() for tensor in step.tensors()]


def _groups(step):
    return parameter_groups(step.model, 0.0005)


def test_graphs_follow_the_phases():
    assert_close(trained(GraphGear), trained(EagerGear), 1e-4)


def test_compiled_graphs_follow_the_phases():
    """In each of them move just the parts that learn."""
    states = []
    torch._dynamo.reset()
    trained(
        lambda step: GraphGear(step, compiled_loss_of(step)), "mini", SMALL_PHASES,
        lambda model: states.append({name: p.detach().clone() for name, p in model.named_parameters()}),
    )  # fmt: skip
    model = build_model("mini", nc=NC)
    plan = make_plan(PlanSpec(name="test", phases=SMALL_PHASES), model, 3)
    for phase, (before, after) in zip(plan.phases[1:], pairwise(states), strict=True):
        phase.freeze(model)
        learns = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        assert {name for name in before if not torch.equal(before[name], after[name])} == learns


def test_a_captured_yolox_run_keeps_what_is_frozen(tmp_path):
    settings = {"cfg": "yolox-nano", "img_size": 64, "device": "0", "gear": "graph", "plan": "yolox-progressive"}
    words = flags(tmp_path, images=64, save_period=1, name="run", **settings)
    assert main(["train", *words, "--set", "multi_scale=false"]) == 0
    weights = tmp_path / "runs" / "run" / "weights"
    first, second, third = (torch.load(weights / f"epoch_{n:03}.pt", weights_only=True) for n in (1, 2, 3))
    assert [state["run"]["phases"]["phase"] for state in (first, second, third)] == [0, 1, 2]
    for kind in ("model", "ema"):
        moved = {name for name in first[kind] if not torch.equal(second[kind][name], third[kind][name])}
        assert {name.split(".")[0] for name in moved} == {"backbone", "head"}
        assert {name.split(".")[2] for name in moved if name.startswith("backbone.backbone.")} == {"dark5"}
        assert all(torch.equal(first[kind][n], third[kind][n]) for n in first[kind] if ".dark2." in n or ".stem." in n)


def memory_of(frozen):
    step = make_step()
    phase = make_plan(PlanSpec(name="test", phases=(PhaseSpec(freeze=(frozen,)),)), step.model, 1).phases[0]
    phase.freeze(step.model)
    step.learn_what_requires_it(step.optimizer.regrouped(_groups(step)))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    EagerGear(step).run(batch(0), ALONE)
    return torch.cuda.max_memory_allocated() - before


def test_frozen_layers_keep_nothing():
    memory_of(0)  # what is allocated once
    assert memory_of(74) < 0.5 * memory_of(0)
