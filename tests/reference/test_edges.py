"""Cases made by hand for what the golden numbers do not reach."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.golden import inputs
from tests.reference import ota, yolox_loss
from tests.reference.boxes import complete_iou
from tests.reference.candidates import AnchorGrid, Candidate, find_candidates, neighbour_cells, passes_ratio_test
from tests.reference.multihead_loss import Head, multihead_loss, own_channels
from tests.reference.yolov7_loss import LossSettings, anchor_loss, aux_ota_loss, bce, objectness_loss, ota_loss, terms

GRID = AnchorGrid(anchors_px=[[(16, 16), (32, 24)], [(48, 48), (64, 96)]], strides=[8, 16])
SETTINGS = LossSettings()
NO_TARGETS = torch.zeros(0, 6)


def maps(name: str, batch: int, nc: int, rows: int = 8, columns: int = 8) -> list[Tensor]:
    """Two levels of raw maps with gradients; rows and columns are those of the finer one."""
    result = []
    for level in range(2):
        shape = (batch, 2, rows >> level, columns >> level, 5 + nc)
        values = inputs.rng(f"edges.{name}.{level}").standard_normal(shape).astype(np.float32)
        result.append(torch.from_numpy(values).requires_grad_())
    return result


def assert_finite(result, preds: list[Tensor]) -> None:
    result.loss.backward()
    assert result.items.isfinite().all()
    assert all(pred.grad.isfinite().all() for pred in preds)


@pytest.mark.parametrize(
    ("xy", "g", "cells"),
    [
        # containing, left, up, right, down as (gj, gi) on a grid of 8 rows and 8 columns
        ((4.3, 4.7), 0.5, [(4, 4), (4, 3), None, None, (5, 4)]),
        ((4.3, 4.7), 1.0, [(4, 4), (4, 3), (3, 4), (4, 5), (5, 4)]),
        # on a boundary both tests hold, and right and down fall back on the containing cell
        ((4.0, 4.0), 0.5, [(4, 4), (4, 3), (3, 4), (4, 4), (4, 4)]),
        # in the middle of a cell neither holds
        ((4.5, 4.5), 0.5, [(4, 4), None, None, None, None]),
        # no neighbour outside the grid: the coordinate must exceed 1 on that side, strictly
        ((0.2, 7.9), 0.5, [(7, 0), None, None, None, None]),
        ((1.0, 1.0), 0.5, [(1, 1), None, None, (1, 1), (1, 1)]),
        ((7.0, 7.0), 1.0, [(7, 7), (7, 6), (6, 7), None, None]),
        # a centre on the far border belongs to the last cell, and its left neighbour is that same cell
        ((8.0, 8.0), 0.5, [(7, 7), (7, 7), (7, 7), None, None]),
        ((0.0, 0.0), 1.0, [(0, 0), None, None, (0, 1), (1, 0)]),
    ],
)
def test_neighbour_rule(xy, g, cells):
    assert neighbour_cells(torch.tensor(xy), (8, 8), g) == cells


def test_ratio_test_is_strict_and_rejects_empty_boxes():
    anchor = torch.tensor([2.0, 2.0])
    assert passes_ratio_test(torch.tensor([7.99, 0.51]), anchor, 4.0)
    assert not passes_ratio_test(torch.tensor([8.0, 2.0]), anchor, 4.0)
    assert not passes_ratio_test(torch.tensor([2.0, 0.5]), anchor, 4.0)
    assert not passes_ratio_test(torch.tensor([0.0, 2.0]), anchor, 4.0)


def test_candidate_order():
    """Level, then offset, then anchor, then target row; images do not matter."""
    targets = torch.tensor([[1, 0, 0.5375, 0.5875, 0.3, 0.3], [0, 0, 0.5375, 0.5875, 0.3, 0.3]])
    found = find_candidates(targets, [(8, 8), (4, 4)], GRID, anchor_t=4.0)
    fine = [candidate for candidate in found if candidate.level == 0]
    assert found == fine + [candidate for candidate in found if candidate.level == 1]
    containing, left, down = (4, 4), (4, 3), (5, 4)
    expected = [(cell, anchor, row) for cell in (containing, left, down) for anchor in (0, 1) for row in (0, 1)]
    assert [((c.gj, c.gi), c.anchor, c.target) for c in fine] == expected
    assert [c.image for c in fine] == [1, 0] * 6


def test_matching_tie_rules():
    """Equal costs: the lower column. A column chosen twice: the cheapest of all boxes, the first among equals."""
    iou = torch.full((2, 3), 0.1)
    assert ota.dynamic_k_match(torch.tensor([[1.0, 1.0, 1.0]]), iou[:1], 10) == [0, None, None]
    assert ota.dynamic_k_match(torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]), iou, 10) == [0, None, None]
    # boxes 1 and 2 choose column 0, but box 0, which chose column 1, is cheaper there
    cost = torch.tensor([[2.0, 1.0], [3.0, 9.0], [4.0, 9.0]])
    assert ota.dynamic_k_match(cost, torch.full((3, 2), 0.1), 10) == [0, 0]


def test_class_cost_by_hand():
    """y = sqrt(0.5 * 0.5): ln 2 for the own class and for each of the others."""
    assert ota.class_cost(torch.zeros(1, 8), 1).item() == pytest.approx(3 * math.log(2), rel=1e-6)


def test_class_cost_of_saturated_scores_is_cut_off():
    """y = 1 for class 0 and y = 0 for class 1: certain and right costs nothing, certain and wrong costs 100."""
    row = torch.tensor([[0.0] * 4 + [200.0, 200.0, -200.0]])
    assert ota.class_cost(row, 0).item() == 0
    assert ota.class_cost(row, 1).item() == 200
    one_sided = torch.tensor([[0.0] * 4 + [200.0, 200.0, 0.0]])  # the second class is at y = sqrt(0.5)
    assert ota.class_cost(one_sided, 0).item() == pytest.approx(-math.log(1 - math.sqrt(0.5)), rel=1e-6)
    assert ota.class_cost(one_sided, 1).item() == pytest.approx(100 - math.log(math.sqrt(0.5)), rel=1e-6)


def test_published_and_clamped_class_cost_are_the_same_function():
    row = torch.randn(50, 12) * 4
    y = (row[:, 5:].sigmoid() * row[:, 4:5].sigmoid()).sqrt()
    target = torch.nn.functional.one_hot(torch.tensor(3), 7).float().expand_as(y)
    clamped = torch.nn.functional.binary_cross_entropy(y, target, reduction="none").sum(-1)
    torch.testing.assert_close(ota.class_cost(row, 3), clamped, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level", [60.0, -200.0])
def test_saturated_predictions_give_a_finite_loss(level):
    preds = [pred.detach().fill_(level).requires_grad_() for pred in maps("saturated", 1, 3)]
    targets = torch.tensor([[0, 1, 0.5, 0.5, 0.3, 0.3], [0, 2, 0.5, 0.5, 0.3, 0.3]])
    result = ota_loss(preds, targets, GRID, (64, 64), SETTINGS)
    assert_finite(result, preds)
    assert result.positives == ota_loss(preds, targets, GRID, (64, 64), SETTINGS).positives


def test_batch_without_targets():
    preds = maps("empty", 2, 3)
    for result in (
        anchor_loss(preds, NO_TARGETS, GRID, SETTINGS),
        ota_loss(preds, NO_TARGETS, GRID, (64, 64), SETTINGS),
        aux_ota_loss(preds + maps("empty_aux", 2, 3), NO_TARGETS, GRID, (64, 64), SETTINGS),
        multihead_loss([preds], NO_TARGETS, [Head([0, 1, 2])], GRID, SETTINGS, ignore_other_heads=True),
    ):
        assert result.positives == []
        assert result.items[0] == result.items[2] == 0
        assert result.items[1] > 0
        assert_finite(result, preds)


def test_image_whose_boxes_have_no_candidate():
    """Image 1 holds only a box too thin for any anchor: nothing there is positive, and image 0 is not disturbed."""
    preds = maps("thin", 2, 3)
    thin = torch.tensor([[1, 0, 0.5, 0.5, 0.9, 0.001]])
    wide = torch.tensor([[0, 1, 0.4, 0.4, 0.3, 0.3]])
    alone = ota_loss(preds, thin, GRID, (64, 64), SETTINGS)
    assert alone.positives == []
    assert alone.items[0] == alone.items[2] == 0
    both = ota_loss(preds, torch.cat([thin, wide]), GRID, (64, 64), SETTINGS)
    assert {p.image for p in both.positives} == {0}
    assert both.items.equal(ota_loss(preds, wide, GRID, (64, 64), SETTINGS).items)


def test_box_without_candidates_of_its_own_still_competes():
    """Its k is at least 1, so it takes a candidate of another box."""
    preds = maps("competes", 1, 3)
    targets = torch.tensor([[0, 1, 0.4, 0.4, 0.3, 0.3], [0, 0, 0.5, 0.5, 0.9, 0.0]])
    result = ota_loss(preds, targets, GRID, (64, 64), SETTINGS)
    assert {p.target for p in result.positives} == {0, 1}
    assert_finite(result, preds)


def test_height_only_scaling_differs_on_wide_images_alone():
    preds = maps("wide", 1, 2, rows=8, columns=16)
    targets = inputs.targets("edges.wide", 1, 2, 12)
    candidates = find_candidates(targets, [(8, 16), (4, 8)], GRID, anchor_t=4.0)
    costs = [
        ota.image_costs(preds, targets, candidates, GRID, (64, 128), fixed=fixed)[1].max(dim=1).values
        for fixed in (False, True)
    ]
    assert not costs[0].equal(costs[1])
    # With the right scaling a prediction placed on the box is found to be on it.
    target = torch.tensor([[0, 0, 0.75, 0.5, 0.125, 0.25]])  # 16 x 16 pixels at (96, 32): anchor 0 of the fine level
    preds[0].data[0, 0, 4, 12, :4] = torch.tensor([math.log(0.25 / 0.75)] * 2 + [0.0, 0.0])
    column = [Candidate(0, 0, 0, 4, 12, 0)]
    assert ota.image_costs(preds, target, column, GRID, (64, 128), fixed=True)[1].item() == pytest.approx(1, abs=1e-5)
    assert ota.image_costs(preds, target, column, GRID, (64, 128), fixed=False)[1].item() == 0


def test_later_positive_sets_the_objectness_target():
    """The same cell and anchor for two boxes: the box term sees both, objectness the score of the second."""
    preds = [pred.detach().zero_() for pred in maps("twice", 1, 2)]  # each prediction is its anchor at the cell centre
    near, far = [0, 0, 4.5 / 8, 4.5 / 8, 0.25, 0.25], [0, 1, 5.5 / 8, 4.5 / 8, 0.25, 0.25]
    targets = torch.tensor([near, far])
    twice = [Candidate(0, 0, 0, 4, 4, 0), Candidate(0, 0, 0, 4, 4, 1)]
    far_ciou = 2 / 6 - 1 / (3**2 + 2**2)  # shifted by half its width: IoU 1/3, rho 1, c^2 13, no difference in shape
    result = terms(preds, targets, twice, GRID, SETTINGS)
    assert result.box.item() == pytest.approx((0 + 1 - far_ciou) / 2, abs=1e-6)
    # at logit 0 the BCE is ln 2 whatever the target, so the gradient is what shows the target
    preds[0].requires_grad_()
    terms(preds, targets, twice, GRID, SETTINGS).obj.backward()
    weight = 4 / 128  # balance of the first level, 128 predictions on it
    assert preds[0].grad[0, 0, 4, 4, 4].item() == pytest.approx(weight * (0.5 - far_ciou), abs=1e-6)


def test_gr_mixes_one_into_the_objectness_target():
    preds = [pred.detach().zero_().requires_grad_() for pred in maps("gr", 1, 2)]
    targets = torch.tensor([[0, 0, 5.5 / 8, 4.5 / 8, 0.25, 0.25]])
    positive = [Candidate(0, 0, 0, 4, 4, 0)]
    terms(preds, targets, positive, GRID, LossSettings(gr=0.25)).obj.backward()
    target = 0.75 + 0.25 * (2 / 6 - 1 / 13)
    assert preds[0].grad[0, 0, 4, 4, 4].item() == pytest.approx(4 / 128 * (0.5 - target), abs=1e-6)


def test_complete_iou_by_hand():
    # IoU 2/(4+4-2) with boxes 2x2 and 1x4 sharing a centre; the hull is 2x4; atan(1) against atan(1/4)
    v = 4 / math.pi**2 * (math.atan(1) - math.atan(0.25)) ** 2
    iou = 2 / 6
    score = complete_iou(torch.tensor([0.0, 0.0, 2.0, 2.0]), torch.tensor([0.0, 0.0, 1.0, 4.0]))
    assert score.item() == pytest.approx(iou - v / (v - iou + 1) * v, abs=1e-6)


def test_focal_pos_weight_and_label_smoothing():
    logits, target = torch.tensor([0.3, -1.2]), torch.tensor([0.95, 0.05])
    expected = 0.0
    for x, z in zip(logits.tolist(), target.tolist(), strict=True):
        p = 1 / (1 + math.exp(-x))
        loss = -(2.0 * z * math.log(p) + (1 - z) * math.log(1 - p))
        p_t, alpha_t = z * p + (1 - z) * (1 - p), z * 0.25 + (1 - z) * 0.75
        expected += loss * alpha_t * (1 - p_t) ** 1.5 / 2
    assert bce(logits, target, pos_weight=2.0, gamma=1.5).item() == pytest.approx(expected, rel=1e-6)
    preds, targets = maps("smooth", 1, 3), torch.tensor([[0, 1, 0.4, 0.4, 0.3, 0.3]])
    plain = anchor_loss(preds, targets, GRID, SETTINGS)
    smooth = anchor_loss(preds, targets, GRID, LossSettings(label_smoothing=0.1))
    assert plain.items[:2].equal(smooth.items[:2])
    assert plain.items[2] != smooth.items[2]


def test_one_head_with_all_classes_is_the_anchor_loss():
    preds, targets = maps("one_head", 2, 4), inputs.targets("edges.one_head", 2, 4, 5)
    plain = anchor_loss(preds, targets, GRID, SETTINGS)
    routed = multihead_loss([preds], targets, [Head([0, 1, 2, 3])], GRID, SETTINGS, ignore_other_heads=True)
    assert routed.items.equal(plain.items)
    assert routed.positives == plain.positives


def test_heads_are_summed_with_their_weights():
    """Also: local ids follow the order of the classes, and a head of one class has no class loss."""
    targets = inputs.targets("edges.heads", 2, 4, 6)
    heads = [Head([3, 0, 1], weight=1.5), Head([2], weight=0.5)]
    head_preds = [maps("head_0", 2, 3), maps("head_1", 2, 1)]
    routed = multihead_loss(head_preds, targets, heads, GRID, SETTINGS)
    expected = torch.zeros(4)
    for preds, head in zip(head_preds, heads, strict=True):
        own = torch.stack([t for t in targets if int(t[1]) in head.classes])
        own[:, 1] = torch.tensor([head.classes.index(int(t[1])) for t in own])
        items = anchor_loss(preds, own, GRID, SETTINGS).items
        assert (items[2] == 0) == (len(head.classes) == 1)
        expected += head.weight * items
    torch.testing.assert_close(routed.items, expected)
    for positive in routed.positives:
        assert positive.image == int(targets[positive.target, 0])


def test_foreign_centres_are_ignored_on_all_levels_and_anchors():
    """One foreign box and no own one; it fits no anchor, but its centre cell is ignored all the same."""
    preds = maps("ignored", 1, 2)
    targets = torch.tensor([[0, 2, 0.55, 0.8, 0.9, 0.001]])
    heads = [Head([0, 1])]
    cells = [(6, 4), (3, 2)]
    hard = soft = 0.0
    for level, (gj, gi) in enumerate(cells):
        loss = torch.nn.functional.softplus(preds[level][0, ..., 4].detach())  # BCE against 0
        in_cell = loss[:, gj, gi].sum()
        hard += 4.0 * 0.25**level * (loss.sum() - in_cell) / (loss.numel() - 2)
        soft += 4.0 * 0.25**level * (loss.sum() - in_cell + 0.3 * in_cell) / loss.numel()
    for weight, expected in ((0.0, hard), (0.3, soft)):
        result = multihead_loss([preds], targets, heads, GRID, SETTINGS, ignore_other_heads=True, ignore_weight=weight)
        assert result.items[1].item() == pytest.approx(expected.item(), rel=1e-5)


def test_objectness_with_every_cell_ignored_is_zero():
    logits, everything = torch.randn(1, 2, 2, 2), torch.ones(1, 2, 2, 2, dtype=torch.bool)
    assert objectness_loss(logits, torch.zeros(1, 2, 2, 2), SETTINGS, everything, 0.0) == 0


def test_full_head_is_cut_to_its_classes():
    preds = maps("full", 1, 4)
    cut = own_channels(preds, Head([3, 1]))
    assert cut[0].shape[-1] == 7
    assert cut[0][..., 5].equal(preds[0][..., 8])


def simota_candidates(label: list[float], version: yolox_loss.SimOtaVersion) -> tuple[list[int], Tensor]:
    """Candidate cells and costs of one box on a single level of 8 x 8 cells with stride 8."""
    cells = yolox_loss.all_cells([torch.zeros(1, 6, 8, 8)], [8])
    columns, cost, _ = yolox_loss.simota_costs(torch.zeros(64, 6), torch.tensor([label]), cells, version)
    return columns, cost[0]


def test_simota_candidates_of_both_versions():
    # the box of 8 x 8 pixels is exactly the cell (3, 3); its neighbours' centres are 1 stride away
    label = [0.0, 28.0, 28.0, 8.0, 8.0]
    columns, cost = simota_candidates(label, yolox_loss.CURRENT)
    assert columns == [gj * 8 + gi for gj in (2, 3, 4) for gi in (2, 3, 4)]
    assert cost.max() < 1e5
    columns, cost = simota_candidates(label, yolox_loss.VENDORED)
    assert columns == [gj * 8 + gi for gj in range(1, 6) for gi in range(1, 6)]
    assert [column for column, value in zip(columns, cost, strict=True) if value < 1e5] == [27]
    # a large box: its cells are candidates beyond the centre area in the vendored version alone
    label = [0.0, 28.0, 28.0, 50.0, 50.0]  # from 3 to 53: seven cell centres each way
    assert len(simota_candidates(label, yolox_loss.CURRENT)[0]) == 9
    columns, cost = simota_candidates(label, yolox_loss.VENDORED)
    assert len(columns) == 49
    assert int((cost < 1e5).sum()) == 25
    # the distance is strict: cells exactly 1.5 strides away do not count
    assert len(simota_candidates([0.0, 32.0, 32.0, 8.0, 8.0], yolox_loss.CURRENT)[0]) == 4


@pytest.mark.parametrize("version", [yolox_loss.CURRENT, yolox_loss.VENDORED])
def test_yolox_boxes_outside_the_image(version):
    """A centre far outside: no candidates, no foreground. Beside another box it takes one of that box's cells."""
    preds = [torch.zeros(1, 7, 8 >> level, 8 >> level, requires_grad=True) for level in range(2)]
    outside, inside = [0.0, 300.0, 300.0, 20.0, 20.0], [1.0, 30.0, 30.0, 20.0, 20.0]
    alone = yolox_loss.yolox_loss(preds, torch.tensor([[outside]]), [8, 16], use_l1=True, version=version)
    assert alone.matches == [{}]
    assert alone.items[1] == alone.items[3] == alone.items[4] == 0
    both = yolox_loss.yolox_loss(preds, torch.tensor([[outside, inside]]), [8, 16], use_l1=True, version=version)
    assert set(both.matches[0].values()) == {0, 1}
    assert_finite(both, preds)


def test_yolox_padding_rows_are_skipped():
    preds = [torch.zeros(1, 7, 8, 8)]
    box = [1.0, 30.0, 30.0, 20.0, 20.0]
    bare = yolox_loss.yolox_loss(preds, torch.tensor([[box]]), [8])
    padded = yolox_loss.yolox_loss(preds, torch.tensor([[box, [0.0] * 5]]), [8])
    assert bare.items.equal(padded.items)
    assert bare.matches == padded.matches
