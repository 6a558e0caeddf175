"""1B4H's loss against the loop reference, and cases made by hand."""

import pytest
import torch

from tests.loss.criteria import GRID, HEADS, NC, maps, random_rows
from tests.map_reader import gradients, map_reader, targets_of
from tests.reference import yolov7_loss as reference
from tests.reference.multihead_loss import Head, multihead_loss, own_channels, own_targets
from yolofast import UserError, build_model
from yolofast.loss.criterion import LossSettings
from yolofast.structures import Targets
from yolofast.train.losses.multihead_criterion import MultiHeadCriterion
from yolofast.train.losses.yolov7_criterion import YoloV7Criterion

WEIGHTS = (1.5, 0.5)
GAINS = {"box": 0.05, "obj": 0.7, "cls": 0.3}
REFERENCE_HEADS = [Head(own, weight) for own, weight in zip(HEADS, WEIGHTS, strict=True)]


def heads_reader(full: bool = False, **facts):
    return map_reader(GRID, NC, head_classes=HEADS, head_weights=WEIGHTS, full_head=full, **facts)


def head_maps(full: bool = False, **facts) -> list[list[torch.Tensor]]:
    return [maps(channels=5 + (NC if full else len(own)), **facts) for own in HEADS]


def flat(head_maps):
    return [m for levels in head_maps for m in levels]


def assert_same(terms, expected, raw):
    box, obj, cls, total = expected.items.tolist()
    assert terms.box.item() == pytest.approx(box, rel=1e-6)
    assert terms.obj.item() == pytest.approx(obj, rel=1e-6)
    assert terms.cls.item() == pytest.approx(cls, rel=1e-6)
    assert terms.total.item() == pytest.approx(total * len(raw[0]), rel=1e-6)
    for gradient, other in zip(gradients(terms.total, raw), gradients(expected.loss, raw), strict=True):
        assert (gradient - other).norm() <= 1e-5 * other.norm()


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("ignore", "weight"), [(False, 0.0), (True, 0.0), (True, 0.3)])
@pytest.mark.parametrize("columns", [8, 16])
def test_anchor_per_head_is_the_reference(full, ignore, weight, columns):
    by_head, rows = head_maps(full, columns=columns), random_rows(20)
    cut = [own_channels(m, head) for m, head in zip(by_head, REFERENCE_HEADS, strict=True)] if full else by_head
    expected = multihead_loss(
        cut,
        rows,
        REFERENCE_HEADS,
        GRID,
        reference.LossSettings(**GAINS),
        ignore_other_heads=ignore,
        ignore_weight=weight,
    )
    loss = MultiHeadCriterion(
        heads_reader(full), LossSettings(**GAINS), "anchor", True, ignore_other_heads=ignore, ignore_weight=weight
    )
    assert_same(loss(flat(by_head), Targets.from_rows(rows, 2)), expected, flat(by_head))


@pytest.mark.parametrize("full", [False, True])
def test_ota_per_head_is_the_weighted_sum_of_ota_losses(full):
    by_head, rows = head_maps(full), random_rows(20)
    settings = reference.LossSettings(**GAINS)
    items, total = torch.zeros(4), torch.zeros(())
    for levels, head in zip(by_head, REFERENCE_HEADS, strict=True):
        mine = own_channels(levels, head) if full else levels
        result = reference.ota_loss(mine, own_targets(rows, head)[1], GRID, (64, 64), settings)
        items, total = items + head.weight * result.items, total + head.weight * result.loss
    loss = MultiHeadCriterion(heads_reader(full), LossSettings(**GAINS), "ota", True)
    expected = reference.LossResult(total, items, [], [])
    assert_same(loss(flat(by_head), Targets.from_rows(rows, 2)), expected, flat(by_head))


@pytest.mark.parametrize("assigner", ["anchor", "ota", "tal"])
def test_one_head_with_all_classes_in_order_is_the_single_head_loss(assigner):
    raw, targets = maps(), Targets.from_rows(random_rows(20), 2)
    reader = map_reader(GRID, NC, head_classes=(tuple(range(NC)),))
    routed = MultiHeadCriterion(reader, LossSettings(**GAINS), assigner, True, ignore_other_heads=True)(raw, targets)
    single = YoloV7Criterion(map_reader(GRID, NC), LossSettings(**GAINS), assigner, True)(raw, targets)
    torch.testing.assert_close(routed.total, single.total, rtol=1e-6, atol=0)


def test_a_head_of_one_class_has_no_class_loss():
    """Also with `full_head`, where its map has a channel for every class: none of them learns."""
    rows = [[0, 2, 0.4, 0.4, 0.3, 0.3]]  # of the second head, which owns class 2 alone
    for full in (False, True):
        raw = flat(head_maps(full))
        terms = MultiHeadCriterion(heads_reader(full), LossSettings(**GAINS), "anchor", True)(raw, targets_of(rows, 2))
        assert terms.box > 0
        assert terms.cls == 0
        assert all((gradient[..., 5:] == 0).all() for gradient in gradients(terms.total, raw))


def test_foreign_class_channels_of_a_full_head_learn_nothing():
    raw = flat(head_maps(full=True))
    loss = MultiHeadCriterion(heads_reader(full=True), LossSettings(**GAINS), "ota", True)
    first = gradients(loss(raw, Targets.from_rows(random_rows(30), 2)).total, raw)[0]
    assert (first[..., 5 + 2] == 0).all()
    assert all((first[..., 5 + own] != 0).any() for own in HEADS[0])


def objectness_gradient(rows, faithful, ignore, weight=0.0, classes=HEADS):
    """Of head 0, fine level, every prediction being its anchor in the middle of its cell."""
    raw = [m.detach().zero_().requires_grad_() for m in flat(head_maps(batch=1))]
    loss = MultiHeadCriterion(
        heads_reader(), LossSettings(**GAINS), "anchor", faithful, ignore_other_heads=ignore, ignore_weight=weight
    )
    return gradients(loss(raw, targets_of(rows)).total, raw)[0][0, ..., 4]


def test_foreign_centre_cell_by_hand():
    """One foreign box, centre in row 6 and column 4, too thin for any anchor: only that cell is left out."""
    foreign = [[0, 2, 0.55, 0.8, 0.9, 0.001]]
    background = WEIGHTS[0] * GAINS["obj"] * 4.0 * 0.5  # head, gain, level and σ(0) − 0
    taught = objectness_gradient(foreign, True, ignore=False)
    torch.testing.assert_close(taught, torch.full((2, 8, 8), background / 128))
    hard = torch.full((2, 8, 8), background / 126)
    hard[:, 6, 4] = 0
    torch.testing.assert_close(objectness_gradient(foreign, True, ignore=True), hard)
    soft = torch.full((2, 8, 8), background / 128)
    soft[:, 6, 4] *= 0.3
    torch.testing.assert_close(objectness_gradient(foreign, True, ignore=True, weight=0.3), soft)


def test_own_positive_under_a_foreign_centre():
    """Both boxes in the middle of cell (4, 4): the published mask also covers what the head itself is to find there."""
    both = [[0, 0, 4.5 / 8, 4.5 / 8, 0.25, 0.25], [0, 2, 4.5 / 8, 4.5 / 8, 0.25, 0.25]]
    faithful, fixed = (objectness_gradient(both, faithful, ignore=True) for faithful in (True, False))
    assert (faithful[:, 4, 4] == 0).all()
    assert fixed[0, 4, 4] < 0  # this anchor is the box: its objectness is to rise
    assert fixed[1, 4, 4] != 0


def test_own_anchor_that_does_not_learn_stays_ignored():
    """The box fits the first anchor alone; the second is no positive, so it is left out in both."""
    small = [[0, 0, 4.5 / 8, 4.5 / 8, 0.08, 0.08], [0, 2, 4.5 / 8, 4.5 / 8, 0.25, 0.25]]
    fixed = objectness_gradient(small, False, ignore=True)[:, 4, 4]
    assert fixed[0] != 0
    assert fixed[1] == 0


def test_every_cell_ignored_gives_a_finite_loss():
    rows = [[0, 2, (x + 0.5) / 8, (y + 0.5) / 8, 0.01, 0.9] for x in range(8) for y in range(8)]
    raw = flat(head_maps(batch=1))
    loss = MultiHeadCriterion(heads_reader(), LossSettings(**GAINS), "anchor", True, ignore_other_heads=True)
    terms = loss(raw, targets_of(rows))
    assert terms.total.isfinite()
    assert (gradients(terms.total, raw)[0] == 0).all()


def test_autobalance_follows_each_head_on_its_own():
    loss = MultiHeadCriterion(heads_reader(), LossSettings(**GAINS, autobalance=True), "anchor", True)
    loss(flat(head_maps()), Targets.from_rows(random_rows(20), 2))
    first, second = (torch.as_tensor(head.balance) for head in loss.heads)
    assert first[1] == second[1] == 1
    assert first[0] != second[0]


@pytest.mark.slow
@pytest.mark.parametrize("full", [False, True])
def test_network_with_weighted_heads(full):
    """Weights come from the head config; the same call in evaluation mode is the validation loss."""
    assignments = {
        f"head_{i}": {"classes": list(own), "weight": weight}
        for i, (own, weight) in enumerate(zip(HEADS, WEIGHTS, strict=True))
    }
    config = {"nc": NC, "heads": len(HEADS), "full_head": full, "head_assignments": assignments}
    model = build_model("yolov7-tiny-1b4h", nc=NC, head_config=config)
    assert model.layout.head_weights == WEIGHTS
    loss = MultiHeadCriterion(model, LossSettings(**GAINS), "ota", True, ignore_other_heads=True)
    targets = Targets.from_rows(random_rows(12), 2)
    loss(model(torch.rand(2, 3, 64, 64)), targets).total.backward()
    assert all(conv.weight.grad.isfinite().all() for levels in model.head.heads for conv in levels)
    with torch.no_grad():
        validation = loss(model.eval()(torch.rand(2, 3, 64, 64)), targets)
    assert min(validation.box, validation.obj, validation.cls) > 0


def test_mistakes_are_named():
    loss = MultiHeadCriterion(heads_reader(), LossSettings(**GAINS), "anchor", True)
    with pytest.raises(UserError, match="2 raw maps for 2 heads of 2 levels"):
        loss(maps(), Targets.from_rows(random_rows(3), 2))
    with pytest.raises(UserError, match="ignore_weight is -1"):
        MultiHeadCriterion(heads_reader(), LossSettings(**GAINS), "anchor", True, ignore_weight=-1)
