"""Autoanchor: the fit by hand, planted boxes found again, good anchors left alone."""

import numpy as np
import pytest

from yolofast.errors import UserError
from yolofast.model import autoanchor as module
from yolofast.model.autoanchor import AnchorFit, anchor_fit, autoanchor, boxes_at_image_size, evolve_anchors

TINY = np.array(
    [[[10, 13], [16, 30], [33, 23]], [[30, 61], [62, 45], [59, 119]], [[116, 90], [156, 198], [373, 326]]], dtype=float
)


def planted(centres, per_centre=60, spread=0.05, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.asarray(centres, dtype=float)
    return np.repeat(centres, per_centre, 0) * np.exp(rng.normal(0, spread, (len(centres) * per_centre, 2)))


def test_fit_by_hand():
    anchors = np.array([[10.0, 10.0], [100.0, 10.0]])
    boxes = np.array(
        [
            [10, 10],  # the first exactly; the second is 10 times too wide
            [39, 39],  # the first by 3.9; the second's width by 2.6 and height by 3.9
            [40, 10],  # the first by exactly 4, which does not count; the second by 2.5
            [10, 41],  # too high for both
            [0, 10],  # no width: unreachable, without a division by zero
        ]
    )
    with np.errstate(all="raise"):
        assert anchor_fit(boxes, anchors) == AnchorFit(bpr=3 / 5, anchors_above_threshold=4 / 5)
    assert anchor_fit(boxes, anchors.reshape(1, 2, 2)) == anchor_fit(boxes, anchors)


def test_fit_agrees_with_the_formula_box_by_box():
    rng = np.random.default_rng(5)
    boxes, anchors = rng.uniform(1, 300, (40, 2)), rng.uniform(5, 300, (6, 2))
    closeness = [
        [min(min(b / a, a / b) for b, a in zip(box, anchor, strict=True)) for anchor in anchors] for box in boxes
    ]
    fit = anchor_fit(boxes, anchors, 2.5)
    assert fit.bpr == pytest.approx(np.mean([max(row) > 1 / 2.5 for row in closeness]))
    assert fit.anchors_above_threshold == pytest.approx(np.mean([sum(x > 1 / 2.5 for x in row) for row in closeness]))


def test_planted_sizes_are_found_small_to_large():
    centres = np.array([[10, 12], [40, 20], [30, 90], [200, 180]])
    found = evolve_anchors(planted(centres[::-1]), 4, generations=100)
    np.testing.assert_allclose(found, centres, rtol=0.08)
    assert (np.diff(found.prod(1)) > 0).all()


@pytest.mark.slow
def test_mutation_improves_on_k_means():
    boxes = np.exp(np.random.default_rng(2).normal(3.5, 1.0, (800, 2)))
    before, after = (evolve_anchors(boxes, 9, generations=n) for n in (0, 300))
    assert module._fitness(boxes, after, 4.0) > module._fitness(boxes, before, 4.0)


def test_bad_anchors_are_replaced_level_by_level():
    boxes = planted([[400, 30], [450, 25], [30, 380], [20, 420], [500, 40], [300, 20]])  # nothing like TINY
    result = autoanchor(TINY, boxes)
    assert result.replaced
    assert result.before.bpr < 0.98 < result.after.bpr
    assert result.after == anchor_fit(boxes, result.anchors)
    assert result.anchors.shape == TINY.shape
    assert (np.diff(result.anchors.reshape(-1, 2).prod(1)) >= 0).all()  # small ones on the fine level


def test_good_anchors_are_left_alone():
    result = autoanchor(TINY, planted(TINY.reshape(-1, 2)))
    assert not result.replaced
    assert result.before == result.after == AnchorFit(1.0, result.before.anchors_above_threshold)
    np.testing.assert_array_equal(result.anchors, TINY)


def test_anchors_that_cannot_be_bettered_are_kept():
    # Half the boxes have no height: nothing reaches them, so the BPR of 0.5 is the best there is.
    boxes = np.concatenate([planted([[30, 30]]), np.tile([[30.0, 0.0]], (60, 1))])
    result = autoanchor(TINY, boxes)
    assert (result.replaced, result.before.bpr) == (False, 0.5)


def test_boxes_all_under_two_pixels_keep_the_anchors():
    assert not autoanchor(TINY, np.ones((5, 2))).replaced


def test_seed_decides():
    boxes = np.exp(np.random.default_rng(2).normal(3.5, 1.0, (500, 2)))
    first, again, other = (evolve_anchors(boxes, 6, generations=30, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_large_data_sets_are_sampled_deterministically(monkeypatch):
    monkeypatch.setattr(module, "_MAX_BOXES", 200)
    boxes = planted([[10, 10], [50, 100]], per_centre=2000)
    first, again = (evolve_anchors(boxes, 2, generations=30) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, [[10, 10], [50, 100]], rtol=0.1)


def test_fewer_distinct_sizes_than_anchors():
    found = evolve_anchors(np.tile([[20.0, 40.0], [80.0, 10.0]], (10, 1)), 5, generations=20)
    assert found.shape == (5, 2)
    assert anchor_fit(np.array([[20.0, 40.0], [80.0, 10.0]]), found, 1.2).bpr == 1.0


def test_all_widths_equal_is_no_division_by_zero():
    boxes = np.stack([np.full(50, 20.0), np.linspace(10, 200, 50)], 1)
    with np.errstate(all="raise"):
        assert np.isfinite(evolve_anchors(boxes, 3, generations=20)).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: evolve_anchors(np.ones((4, 2)), 2),  # all under 2 px
        lambda: evolve_anchors(np.zeros((0, 2)), 2),
        lambda: evolve_anchors(np.full((4, 2), 9.0), 0),
        lambda: anchor_fit(np.full((4, 2), np.nan), TINY),
        lambda: anchor_fit(np.full((4, 3), 9.0), TINY),
        lambda: anchor_fit(np.full((4, 2), 9.0), TINY * 0),
        lambda: anchor_fit(np.full((4, 2), 9.0), TINY, anchor_t=1.0),
        lambda: autoanchor(TINY.reshape(-1, 2), np.full((4, 2), 9.0)),  # without levels
        lambda: boxes_at_image_size(np.ones((2, 2)), np.ones((3, 2)), 640, np.random.default_rng(0)),
    ],
)
def test_bad_input_is_a_user_error(call):
    with pytest.raises(UserError):
        call()


def test_boxes_at_image_size_by_hand():
    # A 320×160 image at 640: both sides double. Box .5×.5 of it is 160×80 px on the old, 320×160 on the new scale.
    normalised = np.full((1000, 2), 0.5)
    sizes = boxes_at_image_size(normalised, np.tile([320, 160], (1000, 1)), 640, np.random.default_rng(0))
    factor = sizes / [320, 160]
    np.testing.assert_allclose(factor[:, 0], factor[:, 1])  # one factor per box: the shape is kept
    assert 0.9 <= factor.min() < 0.91
    assert 1.09 < factor.max() <= 1.1
