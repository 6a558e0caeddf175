"""Draws against the published recipes over thousands of images: rates, ranges, means; and plans that replay."""

import numpy as np
import pytest
from scipy import stats

from tests.augment.made_up import RECIPES, TINY, make_index, planner_for, random_set
from yolofast.augment.plan import draw_plan
from yolofast.augment.recipe import Recipe, change

WIDTH, HEIGHT = 96, 64
MANY = 4000
SIZES = np.array([[96, 48], [60, 64], [96, 64], [31, 64]])


def plan_many(recipe, count=MANY, sizes=SIZES, width=WIDTH, height=HEIGHT, **more):
    return draw_plan(recipe, np.arange(count) % len(sizes), np.arange(count), sizes, width, height, **more)


def tiles(plan):
    """[B, V] images on each canvas."""
    return (plan.source_BVT >= 0).sum(axis=2)


def assert_uniform(values, low, high):
    assert values.min() >= low and values.max() <= high
    assert stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue > 0.001


def assert_rate(happened, rate):
    """Within four standard deviations."""
    assert abs(happened.mean() - rate) <= 4 * np.sqrt(rate * (1 - rate) / happened.size) + 1e-12


@pytest.mark.parametrize("mosaic", [0.0, 0.3, 1.0])
def test_share_of_mosaics(mosaic):
    plan = plan_many(change(TINY, {"mosaic": mosaic, "mixup": 0.0}))
    first = tiles(plan)[:, 0]
    assert set(first) <= {1, 4, 9}
    assert_rate(first > 1, mosaic)
    assert not tiles(plan)[:, 1].any()


def test_a_fifth_of_the_mosaics_shows_nine_images_in_both_views():
    shown = tiles(plan_many(change(TINY, {"mixup": 1.0})))
    assert set(shown.ravel()) == {4, 9}
    assert_rate(shown[:, 0] == 9, 0.2)
    assert_rate(shown[:, 1] == 9, 0.2)
    assert abs(np.corrcoef(shown.T)[0, 1]) < 0.07


def test_the_first_tile_is_the_image_asked_for_and_the_others_are_any():
    plan = plan_many(change(TINY, {"mixup": 1.0, "nine": 1.0}))
    assert np.array_equal(plan.source_BVT[:, 0, 0], np.arange(MANY) % 4)
    others = np.concatenate((plan.source_BVT[:, 0, 1:].ravel(), plan.source_BVT[:, 1].ravel()))
    assert stats.chisquare(np.bincount(others, minlength=4)).pvalue > 0.001


def test_centre_of_four():
    plan = plan_many(change(TINY, {"nine": 0.0, "mixup": 0.0}))
    assert (plan.canvas_BV2 == (2 * WIDTH, 2 * HEIGHT)).all()
    for axis, side in ((0, WIDTH), (1, HEIGHT)):
        centre = plan.corner_BVT2[:, 0, 3, axis]
        assert (centre.min(), centre.max()) == (side // 2, 3 * side // 2 - 1), "whole numbers in [s/2, 3s/2)"
        assert stats.chisquare(np.bincount(centre - side // 2, minlength=side)).pvalue > 0.001


def test_crop_of_nine():
    plan = plan_many(change(TINY, {"nine": 1.0, "mixup": 0.0}))
    assert (plan.canvas_BV2 == (2 * WIDTH, 2 * HEIGHT)).all()
    for axis, side in ((0, WIDTH), (1, HEIGHT)):
        crop = side - plan.corner_BVT2[:, 0, 0, axis]
        assert (crop.min(), crop.max()) == (0, side - 1)
        assert stats.chisquare(np.bincount(crop, minlength=side)).pvalue > 0.001


@pytest.mark.parametrize("mosaic", [0.0, 1.0])
@pytest.mark.parametrize(("scale", "translate"), [(0.5, 0.1), (0.9, 0.2)])
def test_scale_and_translation(mosaic, scale, translate):
    plan = plan_many(Recipe.from_hyp({"mosaic": mosaic, "scale": scale, "translate": translate}))
    matrix = plan.matrix_BV33[:, 0]
    assert_uniform(matrix[:, 0, 0], 1 - scale, 1.1 + scale)
    assert np.array_equal(matrix[:, 0, 0], matrix[:, 1, 1])
    assert np.array_equal(matrix[:, 0, 0], plan.scale_BV[:, 0])
    assert (matrix[:, 0, 1] == 0).all() and (matrix[:, 1, 0] == 0).all()
    centre = np.append(plan.canvas_BV2[0, 0] / 2, 1)
    at = matrix @ centre
    assert_uniform(at[:, 0] / WIDTH, 0.5 - translate, 0.5 + translate)
    assert_uniform(at[:, 1] / HEIGHT, 0.5 - translate, 0.5 + translate)


def test_rotation():
    matrix = plan_many(Recipe.from_hyp({"mosaic": 1.0, "degrees": 20.0, "scale": 0.5})).matrix_BV33[:, 0]
    angle = np.degrees(np.arctan2(matrix[:, 0, 1], matrix[:, 0, 0]))
    assert_uniform(angle, -20, 20)
    assert np.allclose(matrix[:, 0, 1], -matrix[:, 1, 0])


def test_shear_on_both_axes():
    matrix = plan_many(change(Recipe.from_hyp({"mosaic": 1.0, "shear": 8.0}), {"scale": (1.0, 1.0)})).matrix_BV33[:, 0]
    shear = np.degrees(np.arctan(matrix[:, [0, 1], [1, 0]]))
    assert_uniform(shear[:, 0], -8, 8)
    assert_uniform(shear[:, 1], -8, 8)
    assert abs(np.corrcoef(shear.T)[0, 1]) < 0.07


def test_perspective():
    matrix = plan_many(change(Recipe.from_hyp({"perspective": 0.001}), {"scale": (1.0, 1.0)})).matrix_BV33[:, 0]
    # T · P · C with T = C⁻¹: the last row is P's, moved
    assert_uniform(matrix[:, 2, 0], -0.001, 0.001)
    assert_uniform(matrix[:, 2, 1], -0.001, 0.001)


def test_mixup_only_after_a_mosaic_and_blended_by_beta():
    plan = plan_many(change(TINY, {"mosaic": 0.5, "mixup": 0.4}))
    mixed = plan.blend_B < 1
    mosaic = tiles(plan)[:, 0] > 1
    assert not mixed[~mosaic].any()
    assert_rate(mixed[mosaic], 0.4)
    assert np.array_equal(mixed, tiles(plan)[:, 1] > 0), "a second view exactly where something is blended"
    assert stats.kstest(plan.blend_B[mixed], stats.beta(8, 8).cdf).pvalue > 0.001


def test_colour_gains():
    colour = plan_many(TINY).colour_B3
    for channel, gain in enumerate((0.015, 0.7, 0.4)):
        assert_uniform(colour[:, channel], 1 - gain, 1 + gain)
    assert np.abs(np.corrcoef(colour.T)[~np.eye(3, dtype=bool)]).max() < 0.07


def test_flips():
    flip = plan_many(change(TINY, {"flipud": 0.3, "fliplr": 0.5})).flip_B2
    assert_rate(flip[:, 0], 0.3)
    assert_rate(flip[:, 1], 0.5)
    assert not plan_many(TINY).flip_B2[:, 0].any()


def test_an_image_alone_lies_in_the_middle_half_a_pixel_up_and_left():
    plan = plan_many(TINY.without_mosaic(), 4)
    assert (plan.canvas_BV2[:, 0] == (WIDTH, HEIGHT)).all()
    assert plan.corner_BVT2[:, 0, 0].tolist() == [[0, 8], [18, 0], [0, 0], [32, 0]]
    assert plan.tile_BVT4[:, 0, 0].tolist() == [[0, 8, 96, 56], [18, 0, 78, 64], [0, 0, 96, 64], [32, 0, 63, 64]]


def test_no_augmentation_is_the_letterbox_alone():
    plan = plan_many(Recipe(), 4)
    assert np.array_equal(plan.matrix_BV33[:, 0], np.tile(np.eye(3), (4, 1, 1)))
    assert (plan.colour_B3 == 1).all() and not plan.flip_B2.any() and (plan.blend_B == 1).all()


class TestYolox:
    def test_mosaic_of_four_with_the_transform_about_the_corner(self):
        plan = plan_many(Recipe.yolox(mixup=0.0))
        assert set(tiles(plan)[:, 0]) == {4}
        matrix = plan.matrix_BV33[:, 0]
        assert_uniform(matrix[:, 0, 2] / WIDTH, -0.1, 0.1)
        assert_uniform(matrix[:, 1, 2] / HEIGHT, -0.1, 0.1)
        assert_uniform(plan.scale_BV[:, 0], 0.1, 2.0)

    def test_rotation_and_scale(self):
        plan = plan_many(Recipe.yolox(shear=0.0))
        matrix = plan.matrix_BV33[:, 0]
        assert_uniform(np.degrees(np.arctan2(matrix[:, 0, 1], matrix[:, 0, 0])), -10, 10)
        assert np.allclose(np.hypot(matrix[:, 0, 0], matrix[:, 0, 1]), plan.scale_BV[:, 0])

    def test_shear(self):
        matrix = plan_many(Recipe.yolox(degrees=0.0, scale=(1.0, 1.0))).matrix_BV33[:, 0]
        shear = np.degrees(np.arctan(matrix[:, [0, 1], [1, 0]]))
        assert_uniform(shear[:, 0], -2, 2)
        assert_uniform(shear[:, 1], -2, 2)

    def test_whole_levels_are_added_and_each_channel_is_kept_half_the_time(self):
        colour = plan_many(Recipe.yolox()).colour_B3
        assert np.array_equal(colour, np.round(colour))
        for channel, most in enumerate((5, 30, 30)):
            values = colour[:, channel]
            assert np.abs(values).max() <= most - 1, "±5 cut towards 0 is at most 4"
            # changed half the time, and then cut to 0 with a chance of 1 in `most`
            assert_rate(values == 0, 0.5 + 0.5 / most)
            counts = np.bincount((values[values != 0] + most).astype(int), minlength=2 * most)
            assert stats.chisquare(np.delete(counts, [0, most])).pvalue > 0.001

    def test_share_of_images_that_change_colour(self):
        changed = (plan_many(Recipe.yolox(colour=0.5, hsv=(1000.0, 1000.0, 1000.0))).colour_B3 != 0).any(axis=1)
        assert_rate(changed, 0.5 * 7 / 8)

    def test_blends_half_and_half_with_one_image(self):
        plan = plan_many(Recipe.yolox(mixup=0.6, mosaic=0.5))
        mixed = plan.blend_B < 1
        assert set(plan.blend_B) == {0.5, 1.0}
        assert_rate(mixed[tiles(plan)[:, 0] == 4], 0.6)
        assert not mixed[tiles(plan)[:, 0] == 1].any()
        assert set(tiles(plan)[mixed, 1]) == {1}

    def test_the_partner_is_labelled_resized_maybe_mirrored_and_cut(self):
        plan = plan_many(Recipe.yolox(), labelled=np.array([1, 3]))
        assert set(plan.source_BVT[:, 1, 0]) == {1, 3}
        matrix = plan.matrix_BV33[:, 1]
        factor = matrix[:, 1, 1]
        assert_uniform(factor, 0.5, 1.5)
        mirrored = matrix[:, 0, 0] < 0
        assert_rate(mirrored, 0.5)
        assert np.array_equal(np.abs(matrix[:, 0, 0]), factor)
        # Where the resized frame's left and top edges come to lie on the output.
        left = np.where(mirrored, (WIDTH - 0.5) * matrix[:, 0, 0], -0.5 * factor) + matrix[:, 0, 2] + 0.5
        top = -0.5 * factor + matrix[:, 1, 2] + 0.5
        small = factor <= 1
        assert np.allclose(top[small], 0)
        assert (np.abs(left[small]) < 1).all(), "the width is cut to whole pixels, which shifts a mirrored frame"
        room = (factor * (WIDTH, HEIGHT)[1]).astype(int) - HEIGHT
        assert (top[~small] <= 0.001).all() and (-top[~small] <= room[~small]).all()
        assert_uniform((-top / np.maximum(room, 1))[room > 15], 0, 1)

    def test_alone_in_the_corner_as_it_is(self):
        plan = plan_many(Recipe.yolox().without_mosaic(), 4)
        assert not plan.corner_BVT2[:, 0, 0].any()
        assert np.array_equal(plan.matrix_BV33[:, 0], np.tile(np.eye(3), (4, 1, 1)))

    def test_blends_only_into_mosaics_of_images_with_boxes_and_only_such_images(self):
        """A crowd is not a box to learn, so an image that has nothing else is bare."""
        half = [0.5, 0.5, 0.5, 0.5]
        boxes = [[half]] + [[]] * 30 + [[half]]
        index = make_index([[64, 64]] * 32, boxes, crowd=[False, True])
        images = random_set(count=32, polygons=False)[1]
        planned = planner_for(Recipe.yolox(), index, images).plan(np.arange(400) % 32, np.arange(400), 0)
        plan, rows = planned.plan, planned.rows
        partners = plan.source_BVT[:, 1, 0]
        assert set(partners) == {-1, 0}
        blended = plan.blend_B < 1
        assert np.array_equal(blended, partners == 0)
        labelled = (plan.source_BVT[:, 0] == 0).any(axis=1)
        assert np.array_equal(blended, labelled), "in sight or not: with a mixup rate of 1 all of them"
        assert 20 < blended.sum() < 200
        with_rows = np.isin(np.arange(400), rows[:, 0].astype(int))
        assert not with_rows[~blended].any()
        assert with_rows[blended].mean() > 0.8, "the partner's box is nearly always in sight"


def parts(planned):
    """Everything of a plan, an image at a time."""
    plan, rows = planned.plan, planned.rows
    arrays = [value for value in vars(plan).values() if isinstance(value, np.ndarray)]
    result = []
    for b in range(len(plan)):
        own = [array[b].tolist() for array in arrays] + [rows[rows[:, 0] == b, 1:].tolist()]
        pasted = np.flatnonzero(plan.pastes.image == b)
        own += [plan.pastes.source[pasted].tolist(), plan.pastes.place[pasted].tolist()]
        own += [plan.pastes.masks[p].tolist() for p in pasted]
        own += [
            mask.sum(axis=0).tolist() for view, mask in zip(*vars(plan.copies).values(), strict=True) if view // 2 == b
        ]
        result.append(own)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_plan_replays_whatever_the_batch(name):
    """Any split into batches, any order, other positions beside it: the same image."""
    recipe = RECIPES[name]
    index, images = random_set(count=12)
    planner = planner_for(recipe, index, images, seed=3)
    which, positions = np.random.default_rng(0).integers(0, 12, 24), np.arange(100, 124)
    together = parts(planner.plan(which, positions, 5))
    split = [
        part
        for chunk in range(0, 24, 7)
        for part in parts(planner.plan(which[chunk : chunk + 7], positions[chunk : chunk + 7], 5))
    ]
    assert split == together
    shuffled = np.random.default_rng(1).permutation(24)
    assert parts(planner.plan(which[shuffled], positions[shuffled], 5)) == [together[i] for i in shuffled]
    again = planner_for(recipe, index, images, seed=3)
    assert parts(again.plan(which, positions, 5)) == together
    if name != "nothing":
        assert parts(planner.plan(which, positions, 6)) != together
        assert parts(planner_for(recipe, index, images, seed=4).plan(which, positions, 5)) != together


def test_the_images_needed_and_a_plan_for_those_alone():
    index, images = random_set(count=40)
    plan = planner_for(RECIPES["paste"], index, images).plan([0, 1], [0, 1], 0).plan
    needed = plan.sources()
    assert len(plan.pastes.source)
    assert set(needed) == (set(plan.source_BVT.ravel()) - {-1}) | set(plan.pastes.source)
    small = plan.renumbered(needed)
    shown = plan.source_BVT >= 0
    assert np.array_equal(needed[small.source_BVT[shown]], plan.source_BVT[shown])
    assert (small.source_BVT[~shown] == -1).all()
    assert np.array_equal(needed[small.pastes.source], plan.pastes.source)
