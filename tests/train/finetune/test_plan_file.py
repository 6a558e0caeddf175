"""Freeze plans as files: what they say, and what is refused with its line."""

import pytest

from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.resources import short_names
from yolofast.train.finetune.plan_file import plan_spec_of, read_plan


def written(tmp_path, text):
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return path


def test_what_a_plan_may_say(tmp_path):
    text = """
scopes: {late: 23-37, ends: [0, head]}
layers: 78
plan:
- {until: 10, train: head}
- {until: 40%, train: [head, neck, 20], lr: 0.5, lr_factors: {neck: 0.3, 20: 1}, warmup_epochs: 1.5}
- freeze: [backbone.*, stem]
  batch_norm: {late: late, head: eval}
  batch_norm_epochs: 7
"""
    plan = read_plan(written(tmp_path, text))
    assert (plan.name, plan.layers) == ("plan", 78)
    assert dict(plan.scopes) == {"late": ("23-37",), "ends": ("0", "head")}
    first, second, third = plan.phases
    assert (first.until, first.train, first.freeze, first.lr, first.warmup_epochs) == (10, ("head",), None, 1.0, None)
    assert (second.until, second.train, second.lr, second.warmup_epochs) == (0.4, ("head", "neck", "20"), 0.5, 1.5)
    assert second.lr_factors == (("neck", 0.3), ("20", 1.0))
    assert (third.until, third.train, third.freeze) == (None, None, ("backbone.*", "stem"))
    assert third.batch_norm == (("late", "late"), ("head", "eval")) and third.batch_norm_epochs == 7
    assert [phase.line for phase in plan.phases] == [5, 6, 7]


def test_factors_may_have_an_exponent(tmp_path):
    (phase,) = read_plan(written(tmp_path, "plan: [{lr: 1e-1, lr_factors: {head: 5e-1}}]")).phases
    assert (phase.lr, phase.lr_factors) == (0.1, (("head", 0.5),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plan: 3", "plan is 3"),
        ("plan: []", "plan is []"),
        ("phases: []", ":1: a plan has no 'phases'"),
        ("plan:\n- 5", ":2: phase 1 is 5"),
        ("plan:\n- {until: 0, train: head}", ":2: phase 1: until is 0"),
        ("plan:\n- {until: 3.5, train: head}", "until is 3.5"),
        ("plan:\n- {until: 140%, train: head}", "until is '140%'"),
        ("plan:\n- {trian: head}", "phase 1 has no 'trian', did you mean 'train'?"),
        ("plan:\n- {train: []}", "train is []"),
        ("plan:\n- {train: head, freeze: 3}", "phase 1 has both train and freeze"),
        ("plan:\n- {lr: -1}", "lr is -1"),
        ("plan:\n- {lr: 1e6}", "lr is 1000000.0\n  fix: give a factor from 0 to 1000"),
        ("plan:\n- {lr_factors: {head: 1000000}}", "fix: give a factor from 0 to 1000 for each scope"),
        ("plan:\n- {lr: .nan}", "lr is nan"),
        ("plan:\n- {lr_factors: [1]}", "lr_factors is [1]"),
        ("plan: [{}]\nepochs: 0", "epochs is 0"),
        ("plan:\n- {batch_norm: off}", "batch_norm is False"),
        ("plan:\n- {batch_norm: {head: frozen}}", "batch_norm is {'head': 'frozen'}"),
        ("plan:\n- {until: 3}\n- {}\n- {}", ":3: phase 2 of 3 does not say when it ends"),
        ("plan:\n- {until: 3}\n- {until: 3}", ":3: phase 2 ends no later than one before it"),
        ("plan: [{}]\nscopes: {late: }", "scope 'late' is None"),
        ("plan: [{}]\nlayers: many", ":2: layers is 'many'"),
    ],
)
def test_refused(tmp_path, text, message):
    with pytest.raises(UserError) as error:
        read_plan(written(tmp_path, text))
    assert message in str(error.value) and error.value.fix


def test_packaged_plans_are_found_by_name():
    names = short_names("plan")
    assert {"yolox-progressive", "yolov7-tiny-gradual", "stage1_neck_tune", "stage2_late_backbone_tune"} <= set(names)
    assert all(read_plan(name).phases for name in names)
    with pytest.raises(UserError, match="did you mean 'yolox-progressive'"):
        read_plan("yolox-progresive")


def test_freeze_is_a_plan_of_one_phase():
    (phase,) = plan_spec_of(TrainConfig(freeze=(50,))).phases
    assert phase.freeze == (50,) and phase.until is None


def test_stages_take_the_values_of_their_flags():
    (first,) = plan_spec_of(TrainConfig(stage="stage1_neck_tune")).phases
    assert dict(first.lr_factors) == {"head": 1.0, "neck": 0.3} and first.warmup_epochs == 5
    (second,) = plan_spec_of(TrainConfig(stage="stage2_late_backbone_tune")).phases
    assert dict(second.lr_factors) == {"head": 1.0, "neck": 0.3, "late": 0.05} and second.warmup_epochs == 10
    assert second.batch_norm == (("late", "eval"),)
    flags = {"lr_mult_backbone": 0.1, "lr_mult_head": 2.0, "warmup_restart_epochs": 0}
    (other,) = plan_spec_of(
        TrainConfig(stage="stage2_late_backbone_tune", bn_unfreeze_late=True, bn_phase1_epochs=3, **flags)
    ).phases
    assert dict(other.lr_factors) == {"head": 2.0, "neck": 0.3, "late": 0.1} and other.warmup_epochs == 0
    assert other.batch_norm == (("late", "late"),) and other.batch_norm_epochs == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"plan": "a.yaml", "freeze": (3,)}, "--freeze and --plan both say what learns"),
        ({"plan": "a.yaml", "stage": "stage1_neck_tune"}, "--plan and --stage both say what learns"),
        ({"lr_mult_neck": 0.5}, "--lr-mult-neck changes a value of --stage, which is not given"),
        ({"explain": "schedule.jpg"}, "the picture is a PNG file"),
        ({"freeze": (True,)}, "--freeze is True\n  fix: give 1 or more whole numbers, or names"),
    ],
)
def test_settings_that_do_not_go_together(values, message):
    with pytest.raises(UserError) as error:
        TrainConfig(**values)
    assert message in str(error.value) and error.value.fix
