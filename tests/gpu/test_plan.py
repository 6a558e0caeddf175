"""Phases on the GPU: captured graphs follow them, and frozen layers save time and memory."""

import torch

from tests.gpu.test_gears import ALONE, assert_close, batch, make_step
from yolofast.config.plan_file import PhaseSpec, PlanSpec
from yolofast.engine.gears import EagerGear, GraphGear
from yolofast.engine.phased_training import PhasedTraining
from yolofast.engine.plan import make_plan
from yolofast.optim.groups import parameter_groups

PHASES = (
    PhaseSpec(until=1, freeze=(74,)),
    PhaseSpec(until=2, freeze=(29,), lr=0.5),
    PhaseSpec(lr_factors=(("neck", 0.1),)),
)


def trained(gear_of):
    step = make_step()
    plan = make_plan(PlanSpec(name="test", phases=PHASES), step.model, 3)
    plan.phases[0].freeze(step.model)
    step.learn_what_requires_it(step.optimizer.regrouped(_groups(step)))
    training, gear = PhasedTraining(plan, step.model, step, lambda text: None), gear_of(step)
    for epoch in range(3):
        step.model.train()
        training.start_epoch(epoch)
        for number in range(4):
            step.optimizer.set([0.01 * pace.rate for pace in training.phase.paces for _ in range(3)], 0.9)
            gear.run(batch(4 * epoch + number), ALONE)
    return [tensor.clone() for tensor in step.tensors()]


def _groups(step):
    return parameter_groups(step.model, 0.0005)


def test_graphs_follow_the_phases():
    assert_close(trained(GraphGear), trained(EagerGear), 1e-4)


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
