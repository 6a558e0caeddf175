"""The options of the YOLOv7 losses, against the loop reference and by hand; and what `faithful=False` repairs."""

import math

import pytest
import torch

from tests.loss.criteria import GRID, NC, maps, random_rows
from tests.map_reader import gradients, map_reader, positives, targets_of
from tests.reference import yolov7_loss as reference
from yolofast import UserError, build_loss
from yolofast.loss.criterion import LossSettings
from yolofast.loss.maps import bce
from yolofast.loss.yolov7_loss import yolov7_terms
from yolofast.structures import Targets
from yolofast.train.losses.yolov7_criterion import YoloV7Criterion, anchors_in_cells

GAINS = {"box": 0.05, "obj": 0.7, "cls": 0.3}


def criterion(assigner="anchor", faithful=True, nc=NC, **options) -> YoloV7Criterion:
    return YoloV7Criterion(map_reader(GRID, nc), LossSettings(**{**GAINS, **options}), assigner, faithful)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"fl_gamma": 1.5},
        {"label_smoothing": 0.1},
        {"cls_pw": 2.0},
        {"obj_pw": 0.5},
        {"gr": 0.25},
        {"cls_gr": 1.0},
        {"cls_gr": 0.4, "label_smoothing": 0.2, "cls_pw": 1.5},
        {"anchor_t": 2.0},
        {"fl_gamma": 0.7, "label_smoothing": 0.2, "cls_pw": 1.5, "obj_pw": 2.0, "gr": 0.5, "anchor_t": 6.0},
    ],
)
@pytest.mark.parametrize("assigner", ["anchor", "ota"])
def test_options_against_the_reference(options, assigner):
    raw, rows = maps(), random_rows(20)
    settings = reference.LossSettings(**GAINS, **options)
    if assigner == "anchor":
        expected = reference.anchor_loss(raw, rows, GRID, settings)
    else:
        expected = reference.ota_loss(raw, rows, GRID, (64, 64), settings)
    terms = criterion(assigner, **options)(raw, Targets.from_rows(rows, 2))
    plain = criterion(assigner)(raw, Targets.from_rows(rows, 2))
    assert terms.total != plain.total
    assert torch.stack([terms.box, terms.obj, terms.cls]).tolist() == pytest.approx(
        expected.items[:3].tolist(), rel=1e-5
    )
    for gradient, other in zip(gradients(terms.total, raw), gradients(expected.loss, raw), strict=True):
        assert (gradient - other).norm() <= 1e-5 * other.norm()


def test_focal_loss_by_hand():
    for logit, target in ((0.3, 0.95), (-1.2, 0.05), (2.0, 1.0)):
        p = 1 / (1 + math.exp(-logit))
        plain = -(2.0 * target * math.log(p) + (1 - target) * math.log(1 - p))
        p_t, alpha_t = target * p + (1 - target) * (1 - p), target * 0.25 + (1 - target) * 0.75
        found = bce(torch.tensor(logit), torch.tensor(target), positive_weight=2.0, focal_gamma=1.5)
        assert found.item() == pytest.approx(plain * alpha_t * (1 - p_t) ** 1.5, rel=1e-6)


def test_focal_loss_is_finite_where_saturated():
    """The factor (1 − p_t)^γ with γ below 1 has an infinite slope at p_t = 1."""
    for gamma in (0.5, 1.5):
        logits = torch.tensor([200.0, -200.0, 200.0, -200.0], requires_grad=True)
        loss = bce(logits, torch.tensor([1.0, 0.0, 0.0, 1.0]), focal_gamma=gamma)
        (gradient,) = torch.autograd.grad(loss.sum(), logits)
        assert loss.isfinite().all()
        assert gradient.isfinite().all(), gamma


def test_label_smoothing_by_hand():
    """At logit 0 the gradient shows the targets: σ(0) − (1 − ε/2) for the own class and σ(0) − ε/2 for the others."""
    raw = [m.detach().zero_().requires_grad_() for m in maps(batch=1)]
    rows = [[0, 2, 4.5 / 8, 4.5 / 8, 0.25, 0.25]]  # in the middle of a cell: no neighbours
    gradient = gradients(criterion(label_smoothing=0.1)(raw, targets_of(rows)).total, raw)[0][0, 0, 4, 4, 5:]
    per_element = GAINS["cls"] / (2 * NC)  # the box fits both anchors of this level
    expected = torch.tensor([0.45, 0.45, -0.45, 0.45]) * per_element
    torch.testing.assert_close(gradient, expected)


def test_autobalance():
    """Each weight follows the inverse of its level's loss; that of stride 16 stays 1."""
    raw, targets = maps(), Targets.from_rows(random_rows(20), 2)
    loss, plain = criterion(autobalance=True), criterion()
    first, second = loss(raw, targets), loss(raw, targets)
    anchors = anchors_in_cells(plain.model)
    assignment = plain.assign(raw, targets, anchors, 0.5, 10)
    how = {"best_overlap": not plain.faithful, "objectness_mean": lambda loss, slots: loss.mean()}
    terms = yolov7_terms(raw, assignment, targets, anchors, plain.settings, plain.reader, **how)
    by_level = terms.obj_by_level.detach()
    assert first.obj == plain(raw, targets).obj  # the first step still uses the published weights
    balance = torch.tensor([4.0, 1.0])
    for _ in range(2):
        balance = 0.9999 * balance + 0.0001 / by_level
        balance = balance / balance[1]
        if _ == 0:
            assert second.obj.item() == pytest.approx((by_level * balance).sum().item() * GAINS["obj"], rel=1e-6)
    torch.testing.assert_close(torch.as_tensor(loss.balance), balance)
    assert plain.balance == (4.0, 1.0)


def test_gains_are_scaled_by_levels_classes_and_image_size():
    """3/levels for all; nc/80 for the class gain, (image size/640)² for objectness."""
    raw, targets = maps(), Targets.from_rows(random_rows(20), 2)
    hyp = {"box": 0.05, "obj": 0.7, "cls": 0.3, "lr0": 0.01}  # lr0 is not the loss's
    found = build_loss(map_reader(GRID, NC), hyp, image_size=320, assigner="anchor")(raw, targets)
    scaled = {"box": 0.05 * 1.5, "obj": 0.7 * 0.25 * 1.5, "cls": 0.3 * NC / 80 * 1.5}
    expected = criterion(**scaled)(raw, targets)
    assert (found.box, found.obj, found.cls) == (expected.box, expected.obj, expected.cls)
    torch.testing.assert_close(found.total, (found.box + found.obj + found.cls) * 2)  # times the batch size


@pytest.mark.parametrize(
    ("hyp", "message"),
    [
        ({"box": "much"}, "hyper-parameter box is 'much'"),
        ({"obj": -1}, "hyper-parameter obj is -1"),
        ({"cls": float("nan")}, "hyper-parameter cls is nan"),
        ({"anchor_t": 1.0}, "anchor_t is 1.0"),
    ],
)
def test_impossible_hyper_parameters_are_named(hyp, message):
    with pytest.raises(UserError, match=message):
        build_loss(map_reader(GRID, NC), hyp, image_size=320)


def test_unknown_assigner_is_named():
    with pytest.raises(UserError, match="assigner is 'oat'"):
        build_loss(map_reader(GRID, NC), {}, image_size=320, assigner="oat")


def assigned(assigner, faithful, raw, rows):
    loss = criterion(assigner, faithful)
    targets = Targets.from_rows(torch.tensor(rows), 1)
    return positives(loss.assign(raw, targets, anchors_in_cells(loss.model), 0.5, 10), raw, torch.tensor(rows))


def test_centre_on_a_boundary_counts_once_when_fixed():
    """Right and below of (4.0, 4.0) are the containing cell again: published twice more, fixed not."""
    rows = [[0.0, 1.0, 0.5, 0.5, 0.25, 0.25]]
    for faithful, count in ((True, 3), (False, 1)):
        found = [p for p in assigned("anchor", faithful, maps(batch=1), rows) if (p.level, p.anchor) == (0, 0)]
        assert [(p.gj, p.gi) for p in found] == [(3, 4), (4, 3)] + [(4, 4)] * count


def test_centre_on_the_far_border_counts_once_when_fixed():
    rows = [[0.0, 1.0, 1.0, 1.0, 0.25, 0.25]]
    for faithful, count in ((True, 3), (False, 1)):
        found = [p for p in assigned("anchor", faithful, maps(batch=1), rows) if (p.level, p.anchor) == (0, 0)]
        assert [(p.gj, p.gi) for p in found] == [(7, 7)] * count


def test_one_anchor_of_one_cell_serves_one_box_when_fixed():
    """Two equal boxes reach the same cells. Published, each cell is there twice, and its overlap counts twice: both are
    taken. Every prediction is its anchor, and the boxes are the first one.
    """
    raw = [m.detach().zero_() for m in maps(batch=1)]
    rows = [[0.0, 1.0, 0.57, 0.57, 0.25, 0.25], [0.0, 2.0, 0.57, 0.57, 0.25, 0.25]]
    found = {faithful: assigned("ota", faithful, raw, rows) for faithful in (True, False)}
    cells = {faithful: [p._replace(target=-1) for p in found[faithful]] for faithful in found}
    assert len(set(cells[True])) < len(cells[True])
    assert len(set(cells[False])) == len(cells[False])


def test_of_two_boxes_in_a_cell_the_better_overlap_is_the_objectness_target_when_fixed():
    """Published, it is the last row's, be it ever so bad. Each prediction is its anchor at the cell's centre."""
    near, far = [0.0, 0.0, 4.5 / 8, 4.5 / 8, 0.25, 0.25], [0.0, 1.0, 4.6 / 8, 4.6 / 8, 0.4, 0.4]
    raw = [m.detach().zero_().requires_grad_() for m in maps(batch=1)]
    gradient = {}
    for faithful in (True, False):
        for order in ((near, far), (far, near)):
            total = criterion(faithful=faithful)(raw, targets_of(list(order))).total
            gradient[faithful, order[1] is far] = gradients(total, raw)[0][0, 0, 4, 4, 4].item()
    weight = 4.0 * GAINS["obj"] / 128
    assert gradient[True, False] == pytest.approx(weight * (0.5 - 1.0), rel=1e-5)  # the near box comes last
    assert gradient[True, True] > gradient[True, False]  # the far box comes last
    assert gradient[False, True] == gradient[False, False] == pytest.approx(weight * (0.5 - 1.0), rel=1e-5)


def test_boxes_are_scaled_by_height_alone_unless_fixed():
    """An image twice as wide as high; the prediction of cell (4, 12) is exactly the box, all others are small.

    Scaled by the height alone the box would lie elsewhere, and the cell next to it, which is surer, is taken.
    """
    raw = [torch.full((1, 2, 8 >> level, 16 >> level, 5 + NC), -3.0) for level in range(2)]
    raw[0][0, 0, 4, 12, :4] = torch.tensor([math.log(0.3 / 0.7), 0.0, 0.0, 0.0])
    raw[0][0, 0, 4, 11, 4:6] = 3.0
    rows = [[0.0, 0.0, 12.1 / 16, 4.5 / 8, 0.125, 0.25]]  # 16 x 16 pixels, the first anchor
    assert [(p.gj, p.gi) for p in assigned("ota", False, raw, rows)] == [(4, 12)]
    assert [(p.gj, p.gi) for p in assigned("ota", True, raw, rows)] == [(4, 11)]


def test_on_square_images_with_clear_boxes_both_agree():
    """No duplicates: one box, centre off the boundaries."""
    raw, rows = maps(batch=1), [[0, 1, 0.57, 0.43, 0.3, 0.25]]
    for assigner in ("anchor", "ota"):
        faithful, fixed = (criterion(assigner, flag)(raw, targets_of(rows)).total for flag in (True, False))
        assert faithful == fixed
