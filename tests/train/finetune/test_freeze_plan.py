"""What a plan means in a network: which layers, how many parameters, in which epochs."""

import pytest
import torch

from yolofast import build_model
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.train.finetune.freeze_plan import LearningPace, make_plan, plan_of
from yolofast.train.finetune.plan_file import PhaseSpec, PlanSpec, read_plan


@pytest.fixture(scope="module")
def tiny():
    return build_model("yolov7-tiny-1b4h")


@pytest.fixture(scope="module")
def nano():
    return build_model("yolox-nano")


def spec(*phases, **more):
    return PlanSpec(name="test", phases=phases, **more)


def test_the_three_phases_of_yolox_l_with_seven_classes():
    with torch.device("meta"):
        model = build_model("yolox-l", nc=7)
    plan = make_plan(read_plan("yolox-progressive"), model, 30)
    assert [(phase.first, phase.end) for phase in plan.phases] == [(0, 10), (10, 20), (20, 30)]
    assert [phase.trainable(model) for phase in plan.phases] == [7_553_572, 27_076_644, 44_393_508]


def test_gradual_unfreezing_of_tiny(tiny):
    plan = make_plan(read_plan("yolov7-tiny-gradual"), tiny, 200)
    assert [phase.trainable(tiny) for phase in plan.phases] == [1_819_780, 2_931_332, 3_803_140, 6_267_556]
    rates = [max(pace.rate for pace in phase.paces) for phase in plan.phases]
    assert rates == sorted(rates, reverse=True) and len(set(rates)) == 4


def test_the_scopes_of_the_stages(tiny):
    late, neck, early = 2_495_488, 1_325_952, 626_336
    head = 6_267_556 - late - neck - early
    stage1, stage2 = (
        make_plan(read_plan(name), tiny, 100).phases[0] for name in ("stage1_neck_tune", "stage2_late_backbone_tune")
    )
    assert stage1.trainable(tiny) == neck + head and stage2.trainable(tiny) == late + neck + head
    assert {pace.rate for pace in stage2.paces} == {1.0, 0.3, 0.05}
    assert stage2.learning[23].rate == 0.05 and stage2.learning[38].rate == 0.3 and stage2.learning[77].rate == 1.0
    assert stage1.with_frozen_statistics(99) >= set(range(38))
    assert stage2.with_frozen_statistics(99) == set(stage2.statistics_frozen_until) >= set(range(38))


def test_late_statistics_move_after_their_epochs(tiny):
    config = TrainConfig(
        stage="stage2_late_backbone_tune", bn_unfreeze_late=True, bn_phase1_epochs=3, epochs=10, cfg="yolov7-tiny-1b4h"
    )
    (phase,) = plan_of(config, tiny).phases
    learning_late = {layer for layer in range(23, 38) if layer in phase.learning}
    assert learning_late and phase.with_frozen_statistics(2) >= learning_late
    assert not phase.with_frozen_statistics(3) & learning_late and phase.with_frozen_statistics(3) >= set(range(23))


def test_names_numbers_and_globs(nano, tiny):
    phase = make_plan(spec(PhaseSpec(train=("backbone.dark?", "head.cls_*"))), nano, 1).phases[0]
    names = {nano.layers[layer].name for layer in phase.learning}
    assert names == {"dark2", "dark3", "dark4", "dark5", "cls_convs", "cls_preds"}
    frozen = make_plan(spec(PhaseSpec(freeze=("backbone.*", "C3_*"))), nano, 1).phases[0]
    assert {nano.layers[n].part for n in frozen.learning} == {"neck", "head"}
    numbers = make_plan(spec(PhaseSpec(train=("late",)), scopes=(("late", ("23-37", "head")),)), tiny, 1).phases[0]
    assert min(numbers.learning) == 23 and 38 not in numbers.learning and 77 in numbers.learning
    assert set(plan_of(TrainConfig(freeze=("backbone.*",)), tiny).phases[0].learning) == {
        n for n in range(29, 78) if list(tiny.layers[n].module.parameters())
    }


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        (PhaseSpec(train=("haed",)), "train 'haed' names nothing.*did you mean 'head'"),
        (PhaseSpec(train=("neck",), lr_factors=(("dark6", 0.1),)), "lr_factors 'dark6' names nothing"),
        (PhaseSpec(train=("neck",), lr_factors=(("head", 0.1),)), "lr_factors names head, which does not learn in it"),
        (
            PhaseSpec(train=("neck",), batch_norm=(("head", "eval"),)),
            "batch_norm names head, which does not learn in this",
        ),
        (PhaseSpec(freeze=("*",)), "nothing learns"),
        (PhaseSpec(freeze=(10,)), "have no numbers"),
        (PhaseSpec(train=("10",)), "train .10. names nothing"),
    ],
)
def test_names_that_mean_nothing(nano, phase, message):
    with pytest.raises(UserError, match=message) as error:
        make_plan(spec(phase, where="plan.yaml"), nano, 3)
    assert error.value.where == "plan.yaml" and error.value.fix


def test_a_plan_by_numbers_is_for_its_network_only(nano, tiny):
    with pytest.raises(UserError, match="network of 78 layers"):
        make_plan(read_plan("stage1_neck_tune"), nano, 3)
    with pytest.raises(UserError, match="--freeze 99 names a layer"):
        plan_of(TrainConfig(freeze=(99,)), tiny)
    with pytest.raises(UserError, match="70-78 names a layer that does not exist"):
        make_plan(spec(PhaseSpec(train=("70-78",))), tiny, 3)


def test_a_plan_by_names_says_which_networks_have_them(tiny):
    with pytest.raises(UserError, match="'dark5' names nothing of this network") as error:
        make_plan(read_plan("yolox-progressive"), tiny, 3)
    assert "--cfg yolox" in error.value.fix


def test_phases_fit_the_run(nano):
    phases = [PhaseSpec(until=2, train=("head",)), PhaseSpec(until=0.5, train=("neck",)), PhaseSpec(until=9)]
    plan = make_plan(spec(*phases), nano, 12)
    assert [(phase.first, phase.end) for phase in plan.phases] == [(0, 2), (2, 6), (6, 12)]
    assert (plan.unreached, plan.extended) == (0, 3)
    assert [plan.at(epoch).number for epoch in range(12)] == [0] * 2 + [1] * 4 + [2] * 6
    short = make_plan(spec(*phases), nano, 2)
    assert [(phase.first, phase.end) for phase in short.phases] == [(0, 2)] and short.unreached == 2


def test_paces_tell_apart_what_has_come_when(nano):
    phases = [PhaseSpec(until=1, train=("head",)), PhaseSpec(until=2, train=("neck",)), PhaseSpec()]
    plan = make_plan(spec(*phases), nano, 3)
    head, neck = (next(n for n, la in enumerate(nano.layers) if la.part == part) for part in ("head", "neck"))
    assert plan.phases[2].learning[neck] == LearningPace(rate=1.0, since=1)
    assert plan.phases[2].learning[head] == LearningPace(rate=1.0, since=2), "it was frozen in between"
