"""The run's schedule, times what the plan says."""

import pytest

from yolofast import build_model
from yolofast.optim.schedule import YoloV7Schedule, YoloXSchedule
from yolofast.train.finetune.freeze_plan import make_plan, planned
from yolofast.train.finetune.plan_file import PhaseSpec, PlanSpec

V7 = YoloV7Schedule(
    epochs=12, batches=10, batch_size=32, lr=0.01, final_share=0.1, momentum=0.9, warmup_epochs=2,
    warmup_momentum=0.8, warmup_bias_lr=0.1, least_warmup=0,
)  # fmt: skip
YOLOX = YoloXSchedule(epochs=12, batches=10, lr=0.01, momentum=0.9, warmup_epochs=2, plain_epochs=3)


@pytest.fixture(scope="module")
def model():
    return build_model("yolox-nano")


def plan(model, *phases):
    return make_plan(PlanSpec(name="test", phases=phases), model, 12)


@pytest.mark.parametrize("own", [V7, YOLOX])
def test_without_a_plan_nothing_changes(model, own):
    schedule = planned(own, plan(model, PhaseSpec()))
    for epoch in range(12):
        for batch in range(10):
            assert schedule.at(epoch, batch) == own.at(epoch, batch)


@pytest.mark.parametrize("own", [V7, YOLOX])
def test_factors_of_phases_and_scopes(model, own):
    phases = PhaseSpec(until=6, train=("head",)), PhaseSpec(lr=0.5, lr_factors=(("backbone", 0.1), ("dark5", 0.2)))
    schedule = planned(own, plan(model, *phases))
    assert schedule.at(5, 3).lr == own.at(5, 3).lr
    base = own.at(8, 3)
    found = schedule.at(8, 3)
    # head (learning since phase 0), neck (since 1), dark5, then the rest of the backbone: three groups each.
    rates = [factor * lr for factor in (0.5, 0.5, 0.1, 0.05) for lr in base.lr]
    assert found.lr == pytest.approx(rates) and len(schedule.plan.at(8).paces) == 4
    assert (found.momentum, found.accumulate) == (base.momentum, base.accumulate)


def test_the_warm_up_starts_again(model):
    phases = PhaseSpec(until=6, train=("head",)), PhaseSpec(train=("head",), warmup_epochs=1.5)
    schedule = planned(V7, plan(model, *phases))
    assert schedule.at(5, 9) == V7.at(5, 9)
    for done in range(15):
        epoch, batch = 6 + done // 10, done % 10
        assert schedule.at(epoch, batch).lr == pytest.approx([lr * done / 15 for lr in V7.at(epoch, batch).lr])
    assert schedule.at(7, 5) == V7.at(7, 5)


def test_the_first_phase_says_how_long_the_runs_own_warm_up_is(model):
    longer = planned(V7, plan(model, PhaseSpec(warmup_epochs=4)))
    assert isinstance(longer.base, YoloV7Schedule) and longer.base.warmup == 40
    assert longer.at(2, 0).lr[0] == pytest.approx(0.5 * V7.at(2, 5).lr[0])
    assert planned(YOLOX, plan(model, PhaseSpec(warmup_epochs=0.0))).at(0, 0).lr[0] == pytest.approx(0.01, rel=1e-3)
