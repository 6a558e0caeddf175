import pytest
import torch

from tests.gpu.problems import HYP, Reader, layout, raw_maps, targets
from yolofast import UserError
from yolofast.train.losses.loss_schedule import AssignerSchedule, ScheduledLoss, build_loss


def test_published_switch():
    assert AssignerSchedule.from_hyp({}).at(0) == "ota"
    assert AssignerSchedule.from_hyp({"loss_ota": 1}).at(5) == "ota"
    assert AssignerSchedule.from_hyp({"loss_ota": 0}).at(5) == "anchor"


def test_switch_during_training():
    for schedule in (
        AssignerSchedule.from_hyp({"assigner": [[0, "anchor"], [70, "ota"]]}),
        AssignerSchedule.from_hyp({"loss_ota": 0}, ota_from_epoch=70),
    ):
        assert [schedule.at(epoch) for epoch in (0, 69, 70, 299)] == ["anchor", "anchor", "ota", "ota"]
    assert AssignerSchedule.from_hyp({}, ota_from_epoch=0).at(0) == "ota"


def test_validation_follows_training_or_the_published_code():
    schedule = AssignerSchedule.from_hyp({"assigner": [[0, "anchor"], [2, "ota"], [4, "tal"]]})
    assert [schedule.for_validation(epoch, faithful=False) for epoch in (0, 2, 4)] == ["anchor", "ota", "tal"]
    assert [schedule.for_validation(epoch, faithful=True) for epoch in (0, 2, 4)] == ["anchor", "anchor", "tal"]


def test_the_loss_of_an_epoch_is_that_of_its_assigner():
    model = Reader(layout(nc=5))
    raw, truth = raw_maps(model.layout, 2, 128), targets(2, 5, 5)
    for faithful in (True, False):
        losses = ScheduledLoss(model, HYP, 128, AssignerSchedule.from_hyp({}, ota_from_epoch=3), faithful)
        value = {name: build_loss(model, HYP, 128, name, faithful)(raw, truth).total for name in ("anchor", "ota")}
        assert not torch.isclose(value["anchor"], value["ota"])
        assert torch.equal(losses.training(2)(raw, truth).total, value["anchor"])
        assert torch.equal(losses.training(3)(raw, truth).total, value["ota"])
        assert torch.equal(losses.validation(3)(raw, truth).total, value["anchor" if faithful else "ota"])


@pytest.mark.parametrize("faithful", [True, False])
def test_yolox_has_no_anchor_loss_to_fall_back_on(faithful):
    model = Reader(layout(nc=5, kind="point"))
    raw, truth = raw_maps(model.layout, 2, 128), targets(2, 5, 5)
    schedule = AssignerSchedule.from_hyp({"loss_ota": 0}, default="simota")
    for losses in (
        ScheduledLoss(model, {}, 128, schedule, faithful),
        ScheduledLoss(model, {}, 128, AssignerSchedule.from_hyp({}), faithful),
    ):
        assert torch.equal(losses.training(0)(raw, truth).total, losses.validation(0)(raw, truth).total)


def test_loss_ota_is_a_number():
    with pytest.raises(UserError, match="loss_ota is '1'"):
        AssignerSchedule.from_hyp({"loss_ota": "1"})


@pytest.mark.parametrize(
    ("assigner", "message"),
    [
        ("otaa", "did you mean 'ota'"),
        ([], r"assigner is \[\]"),
        ([[0, "anchor"], [0, "ota"]], "starts at epochs"),
        ([[1, "anchor"]], "starts at epochs"),
        ([[0, "anchor"], ["x", "ota"]], "has the entry"),
        ([[0, 3]], "assigner is 3"),
        (7, "assigner is 7"),
    ],
)
def test_mistakes(assigner, message):
    with pytest.raises(UserError, match=message):
        AssignerSchedule.from_hyp({"assigner": assigner})


def test_flag_mistakes():
    with pytest.raises(UserError, match="both set"):
        AssignerSchedule.from_hyp({"assigner": "ota"}, ota_from_epoch=3)
    with pytest.raises(UserError, match="--ota-from-epoch is -1"):
        AssignerSchedule.from_hyp({}, ota_from_epoch=-1)
