"""What is frozen is frozen, to the bit; what is thawed learns; what continues to learn keeps its momentum."""

import copy

import pytest
import torch
from torch import nn

from tests.loss.criteria import NC, random_rows
from yolofast import build_model
from yolofast.optim.optimizer import ModelEma, build_optimizer, parameter_groups
from yolofast.precision import Precision
from yolofast.structures import Targets
from yolofast.train.finetune.freeze_plan import make_plan
from yolofast.train.finetune.phased_training import PhasedTraining
from yolofast.train.finetune.plan_file import PhaseSpec, PlanSpec
from yolofast.train.losses.loss_schedule import build_loss
from yolofast.train.step import StepKind, TrainStep

pytestmark = pytest.mark.slow

ALONE = StepKind(sums=False, updates=True)
PHASES = (
    PhaseSpec(until=1, train=("head",)),
    PhaseSpec(until=2, train=("head", "neck"), lr_factors=(("neck", 0.3),)),
    PhaseSpec(until=5, train=("head", "neck", "dark5"), batch_norm=(("dark5", "late"),), batch_norm_epochs=1),
    PhaseSpec(),
)
SIZE = 64


@pytest.fixture(autouse=True)
def one_thread():
    """Maps this small are not worth sharing between threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def phased(*phases, optimizer="sgd", epochs=6):
    torch.manual_seed(0)
    model = build_model("yolox-nano", nc=NC)
    plan = make_plan(PlanSpec(name="test", phases=phases or PHASES), model, epochs)
    plan.phases[0].freeze(model)
    criterion = build_loss(model, {}, SIZE, "simota")
    step = TrainStep(
        model, criterion, build_optimizer(optimizer, parameter_groups(model, 0.001)), ModelEma(model),
        Precision.choose("fp32", "cpu"),
    )  # fmt: skip
    said = []
    return model, step, PhasedTraining(plan, model, step, said.append), said


def batch(seed=0):
    torch.manual_seed(seed)
    images = torch.randint(0, 256, (2, 3, SIZE, SIZE)).float()
    return images, Targets.from_rows(random_rows(6, batch=2), 2)


def learn(model, step, training, epoch, kind=ALONE):
    model.train()
    training.start_epoch(epoch)
    step.optimizer.set([0.01 * pace.rate for pace in training.phase.paces for _ in range(3)], 0.9)
    step.run(*batch(epoch), kind)


def parts_of(network, names):
    layers = [layer for layer in network.layers if layer.part in names or layer.name in names]
    return {f"{layer.scope}.{k}": v.clone() for layer in layers for k, v in layer.module.state_dict().items()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def test_frozen_weights_statistics_and_average_stay_to_the_bit():
    model, step, training, _ = phased()
    frozen_parts = [("backbone", "neck"), ("backbone",), ("stem", "dark2", "dark3", "dark4")]
    for epoch, frozen in enumerate(frozen_parts):
        before = parts_of(model, frozen), parts_of(step.ema.model, frozen)
        head = parts_of(model, ("head",)), parts_of(step.ema.model, ("head",))
        learn(model, step, training, epoch)
        assert same(before[0], parts_of(model, frozen)) and same(before[1], parts_of(step.ema.model, frozen))
        assert not same(head[0], parts_of(model, ("head",)))
        assert not same(head[1], parts_of(step.ema.model, ("head",)))
        assert all(p.grad is None for layer in model.layers if layer.part in frozen for p in layer.module.parameters())


def test_late_statistics_stay_for_their_epochs_while_weights_learn():
    model, step, training, _ = phased()
    norms = [m for m in model.backbone.backbone.dark5.modules() if isinstance(m, nn.BatchNorm2d)]
    moved = []
    for epoch in range(2, 4):
        before = [m.running_mean.clone() for m in norms], norms[0].weight.clone()
        version = step.version
        learn(model, step, training, epoch)
        moved.append(any(not torch.equal(a, m.running_mean) for a, m in zip(before[0], norms, strict=True)))
        assert not torch.equal(before[1], norms[0].weight)
        assert step.version > version, "another step: statistics of other layers move"
    assert moved == [False, True]


def test_everything_learns_in_the_end():
    model, step, training, said = phased()
    for epoch in (0, 1, 2, 4):
        learn(model, step, training, epoch)
    before, version = parts_of(model, ("backbone",)), step.version
    learn(model, step, training, 5)
    after = parts_of(model, ("backbone",))
    assert all(not torch.equal(before[name], after[name]) for name in before)
    assert step.version > version
    assert [text.split(":")[0] for text in said] == [
        "phase 1, epochs 1 to 1", "phase 2, epochs 2 to 2", "phase 3, epochs 3 to 5", "phase 4, epochs 6 to 6",
    ]  # fmt: skip
    assert "learning head, neck, dark5, " in said[2]


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_thawing_does_not_disturb_what_learns_already(optimizer):
    """With a learning rate of 0 for what is thawed, the head learns as if nothing had been thawed."""
    thaws = phased(
        PhaseSpec(until=2, train=("head",)), PhaseSpec(lr_factors=(("neck", 0.0), ("backbone", 0.0)),
        batch_norm=(("neck", "eval"), ("backbone", "eval"))), optimizer=optimizer,
    )  # fmt: skip
    stays = phased(PhaseSpec(train=("head",)), optimizer=optimizer)
    for model, step, training, _ in (thaws, stays):
        for epoch in range(5):
            learn(model, step, training, epoch)
    for a, b in zip(thaws[0].head.parameters(), stays[0].head.parameters(), strict=True):
        assert torch.equal(a, b)


def test_gradients_that_wait_for_an_update_wait_on():
    model, step, training, _ = phased()
    learn(model, step, training, 0, StepKind(sums=True, updates=False))
    first = model.head.stems[0].conv.weight
    waiting = first.grad.clone()
    assert waiting.any()
    model.train()
    training.start_epoch(1)
    step.prepare_gradients(StepKind(sums=True, updates=True))
    assert torch.equal(first.grad, waiting)
    assert not model.backbone.C3_p3.conv1.conv.weight.grad.any()
    assert len(step.pending) == sum(p.requires_grad for p in model.parameters())


def kept_for_backward(model, step):
    """Shapes of the maps a step keeps for its backward pass."""
    shapes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: shapes.append(tuple(t.shape)) or t, lambda t: t):
        step.loss_of(*batch())
    return sum(torch.Size(shape).numel() for shape in shapes)


def test_nothing_below_the_first_layer_that_learns_is_kept():
    model, step, training, _ = phased()
    kept = []
    for epoch in (0, 1, 2, 5):
        model.train()
        training.start_epoch(epoch)
        kept.append(kept_for_backward(model, step))
    assert kept == sorted(kept) and len(set(kept)) == 4
    assert kept[0] < 0.35 * kept[-1]
    model.train()
    training.enter(training.plan.phases[0])
    with torch.autograd.graph.saved_tensors_hooks(lambda t: pytest.fail("kept"), lambda t: t):
        maps = model.backbone(batch()[0])
    assert not any(m.requires_grad for m in maps)


def test_a_state_is_loaded_into_the_phase_it_was_saved_in():
    whole, resumed = phased(optimizer="adam"), phased(optimizer="adam")
    for epoch in range(2):
        learn(*whole[:3], epoch)
    state = copy.deepcopy(
        (whole[0].state_dict(), whole[1].ema.model.state_dict(), whole[1].state_dict(), whole[2].phase.number)
    )
    whole[1].losses.reset()
    learn(*whole[:3], 2)
    model, step, training, _ = resumed
    model.load_state_dict(state[0])
    step.ema.model.load_state_dict(state[1])
    training.enter(training.plan.by_number(state[3]))
    step.load_state_dict(state[2])
    learn(model, step, training, 2)
    for a, b in zip(whole[1].tensors(), step.tensors(), strict=True):
        assert torch.equal(a, b)
