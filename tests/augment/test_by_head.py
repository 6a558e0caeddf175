"""Class-aware augmentation: a mosaic takes the values of one head, in proportion to what it shows."""

import numpy as np
import pytest

from tests.augment.made_up import TINY
from yolofast.augment.by_head import HeadPolicy, count_by_head
from yolofast.augment.plan import draw_plan
from yolofast.augment.recipe import change

MANY = 4000
SIZES = np.full((3, 2), 64)
# Different values everywhere, so that each tells which head was taken.
DEGREES, SHEAR = np.array([10.0, 20.0, 40.0, 80.0]), np.array([0.0, 0.0, 0.0, 0.0])


def policy(counts, faithful=False, **values):
    rates = {"flipud": np.zeros(4), "fliplr": np.zeros(4), "mixup": np.zeros(4)}
    given = {"degrees": DEGREES, "shear": SHEAR, **rates, **values}
    return HeadPolicy(counts=np.array(counts), faithful=faithful, **given)


def plan_many(heads, **changes):
    recipe = change(TINY, {"mixup": 0.0, "scale": (1.0, 1.0), "nine": 0.0, "degrees": 5.0, **changes})
    return draw_plan(recipe, np.zeros(MANY, int), np.arange(MANY), SIZES, 64, 64, heads=heads)


def largest_angle(plan, chosen):
    matrix = plan.matrix_BV33[chosen, 0]
    return np.abs(np.degrees(np.arctan2(matrix[:, 0, 1], matrix[:, 0, 0]))).max()


def test_objects_are_counted_by_head():
    image_of_box, labels = np.array([0, 0, 0, 2, 2]), np.array([0, 3, 1, 2, 3])
    assert count_by_head(image_of_box, labels, 3, ((0, 2), (3, 1))).tolist() == [[1, 2], [0, 0], [1, 1]]


def test_the_choice_is_in_proportion_to_what_is_shown():
    counts = np.array([[1, 0, 3, 0], [0, 2, 0, 0], [5, 5, 5, 5]])
    sources = np.array([[[0, 0, 1, -1]], [[0, -1, -1, -1]]])  # shows 2, 2, 6, 0 and 1, 0, 3, 0 objects
    draws = (np.arange(1000) + 0.5) / 1000
    heads = policy(counts)
    for source, shares in zip(sources, [(0.2, 0.2, 0.6, 0.0), (0.25, 0.0, 0.75, 0.0)], strict=True):
        picked = heads.pick(np.tile(source, (1000, 1, 1)), draws[:, None])[:, 0]
        assert (np.bincount(picked, minlength=4) / 1000).tolist() == pytest.approx(shares, abs=0.002)


def test_uniform_if_nothing_is_shown():
    picked = policy([[0, 0, 0, 0]]).pick(np.zeros((4000, 1, 4), int), ((np.arange(4000) + 0.5) / 4000)[:, None])
    assert np.bincount(picked[:, 0]).tolist() == [1000] * 4


def test_no_head_beyond_the_last():
    last = np.array([[1 - 2.0**-32]])
    assert policy([[1, 0, 0, 0]]).pick(np.zeros((1, 1, 4), int), last).item() == 0
    assert policy([[0, 0, 0, 0]]).pick(np.zeros((1, 1, 4), int), last).item() == 3


def test_a_mosaic_turns_as_its_head_says():
    only_third = policy([[0, 0, 7, 0]] * 3)
    assert 38 < largest_angle(plan_many(only_third), slice(None)) <= 40
    matrix = plan_many(
        policy([[0, 0, 7, 0]] * 3, shear=np.array([0.0, 0.0, 9.0, 0.0]), degrees=np.zeros(4))
    ).matrix_BV33
    assert 8.5 < np.abs(np.degrees(np.arctan(matrix[:, 0, 0, 1]))).max() <= 9


def test_faithful_touches_rotation_and_shear_of_four_mosaics_only():
    rates = {name: np.ones(4) for name in ("flipud", "fliplr", "mixup")}
    heads = policy([[0, 0, 7, 0]] * 3, faithful=True, **rates)
    plan = plan_many(heads, mosaic=0.7, nine=0.3, flipud=0.0, fliplr=0.0)
    tiles = (plan.source_BVT[:, 0] >= 0).sum(axis=1)
    assert 38 < largest_angle(plan, tiles == 4) <= 40
    assert 4.5 < largest_angle(plan, tiles == 9) <= 5
    assert 4.5 < largest_angle(plan, tiles == 1) <= 5
    assert not plan.flip_B2.any()
    assert (plan.blend_B == 1).all()


def test_otherwise_all_five_everywhere():
    rates = {"flipud": np.array([0, 0, 1.0, 0]), "fliplr": np.array([1.0, 1, 0, 1]), "mixup": np.array([0, 0, 1.0, 0])}
    plan = plan_many(policy([[0, 0, 7, 0]] * 3, **rates), mosaic=0.7, nine=0.3)
    tiles = (plan.source_BVT[:, 0] >= 0).sum(axis=1)
    for shown in (1, 4, 9):
        assert 37 < largest_angle(plan, tiles == shown) <= 40
    assert plan.flip_B2[:, 0].all() and not plan.flip_B2[:, 1].any()
    assert np.array_equal(plan.blend_B < 1, tiles > 1), "mixup stays a matter of mosaics"


@pytest.mark.slow
def test_a_plan_without_heads_is_the_same_as_before():
    """The choice of a head takes a draw of its own, so it shifts no other."""
    same = policy([[1, 1, 1, 1]] * 3, degrees=np.full(4, 5.0), fliplr=np.full(4, 0.5))
    assert np.array_equal(plan_many(same).matrix_BV33, plan_many(None).matrix_BV33)
    assert np.array_equal(plan_many(same).flip_B2, plan_many(None).flip_B2)
