"""Boxes and polygons against plain loops on random batches, and the rules of what is kept by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.augment.made_up import PLAIN, RECIPES, make_index, outline_in, pack, plan_batch, planner_for, random_set
from tests.reference.augment_labels import candidates
from yolofast.augment.labels import place_boxes, to_rows, transform_labels
from yolofast.augment.plan import draw_plan
from yolofast.augment.recipe import Recipe, change

WIDTH, HEIGHT = 96, 64


def assert_as_reference(recipe, index, images, seed, batch=6):
    """Returns how many boxes there were to compare."""
    plan = draw_plan(recipe, np.arange(batch) % len(index), np.arange(batch), images.sizes, WIDTH, HEIGHT, seed=seed)
    boxes = transform_labels(place_boxes(plan, index, images.sizes), plan, index)
    rows = list(zip(boxes.image, boxes.view, boxes.label, boxes.corners, strict=True))
    count = len(rows)
    for expected in candidates(plan, index, images.sizes):
        if rows and _fits(rows[0], expected) and expected.keep is not False:
            rows.pop(0)
        else:
            assert not expected.keep, expected
    assert not rows, "boxes that should not be there"
    return count


def _fits(row, expected):
    image, view, label, corners = row
    if (image, view, label) != (expected.image, expected.view, expected.label):
        return False
    inner, outer = np.array(expected.inner), np.array(expected.outer)
    return (
        (outer[:2] <= corners[:2]).all()
        and (corners[:2] <= inner[:2]).all()
        and ((inner[2:] <= corners[2:]).all() and (corners[2:] <= outer[2:]).all())
    )


@pytest.mark.slow
@given(st.integers(0, 10**6), st.sampled_from(sorted(set(RECIPES) - {"copy", "paste"})), st.booleans())
@settings(max_examples=25)
def test_against_plain_loops(seed, name, polygons):
    index, images = random_set(seed % 50, 8, WIDTH, HEIGHT, polygons, crowd=0.2)
    assert_as_reference(RECIPES[name], index, images, seed)


@pytest.mark.slow
@pytest.mark.parametrize("polygons", [False, True])
@pytest.mark.parametrize("name", ["turned", "nine", "perspective", "letterbox", "yolox"])
def test_the_comparison_compares_something(name, polygons):
    index, images = random_set(1, 8, WIDTH, HEIGHT, polygons)
    assert assert_as_reference(RECIPES[name], index, images, 0) > 8


def test_polygons_and_boxes_may_stand_in_one_image():
    generator = np.random.default_rng(0)
    boxes = [np.stack([[0.5, 0.5, 0.6, 0.5], [0.3, 0.6, 0.4, 0.3]])] * 4
    outlines = [outline_in(box) if generator.random() < 0.5 else None for own in boxes for box in own]
    index = make_index([[WIDTH, HEIGHT]] * 4, boxes, outlines)
    assert 0 < sum(outline is None for outline in outlines) < 8
    assert assert_as_reference(RECIPES["turned"], index, random_set(0, 4, WIDTH, HEIGHT)[1], 0) > 8


AS_IT_IS = Recipe()


def rows_of(boxes, recipe=AS_IT_IS, size=100, **more):
    """Of one image of `size`² shown as it is."""
    index = make_index([[size, size]], [np.array(boxes, float).reshape(-1, 4)], **more)
    images = pack([np.zeros((size, size, 3), np.uint8)])
    return planner_for(recipe, index, images, size, size).plan([0], [0], 0).rows


def test_kept_only_above_two_pixels():
    boxes = [[0.5, 0.5, 0.021, 0.2], [0.5, 0.5, 0.02, 0.2], [0.5, 0.5, 0.2, 0.021], [0.5, 0.5, 0.2, 0.019]]
    assert rows_of(boxes)[:, 1].tolist() == [0, 2]


def test_kept_only_below_an_aspect_of_twenty():
    boxes = [[0.5, 0.5, 0.76, 0.04], [0.5, 0.5, 0.81, 0.04], [0.5, 0.5, 0.03, 0.58], [0.5, 0.5, 0.03, 0.61]]
    assert rows_of(boxes)[:, 1].tolist() == [0, 2]


@pytest.mark.parametrize(("polygon", "least"), [(False, 0.10), (True, 0.01)])
def test_kept_only_if_enough_of_the_area_is_left(polygon, least):
    """Images of one object each, of which a known share is left after a shift to the left."""
    index = make_index(
        [[200, 200]],
        [[[0.5, 0.5, 1.0, 1.0]]],
        [np.array([[0, 0], [1, 0], [1, 1], [0, 1.0]])] if polygon else None,
    )
    recipe = change(PLAIN, {"mosaic": 0.0, "scale": (1.0, 1.0), "translate": 1.0})
    plan = draw_plan(recipe, np.zeros(2000, int), np.arange(2000), np.array([[200, 200]]), 200, 200)
    boxes = transform_labels(place_boxes(plan, index, np.array([[200, 200]])), plan, index)
    shift = np.abs(plan.matrix_BV33[:, 0, :2, 2])
    left = np.maximum(200 - shift, 0)
    expected = (left.prod(axis=1) > least * 200**2) & (left > 2).all(axis=1)
    expected &= (left.max(axis=1) < 20 * left.min(axis=1)) & (left > 0).all(axis=1)
    assert np.array_equal(np.isin(np.arange(2000), boxes.image), expected)
    assert 400 < expected.sum() < 1999


def test_the_area_is_compared_after_scaling():
    """An image halved in size keeps its boxes: a quarter of the area is all there is."""
    recipe = change(Recipe(), {"scale": (0.25, 0.25)})
    assert rows_of([[0.5, 0.5, 0.4, 0.4]], recipe).tolist() == [
        [0, 0, 0.5, 0.5, pytest.approx(0.1), pytest.approx(0.1)]
    ]


def test_yolox_keeps_everything_above_a_pixel():
    boxes = [[0.5, 0.5, 0.011, 0.9], [0.5, 0.5, 0.009, 0.9]]
    assert rows_of(boxes, Recipe.yolox(fliplr=0.0).without_mosaic())[:, 1].tolist() == [0]


def test_crowds_are_left_out():
    boxes = [[0.5, 0.5, 0.2, 0.2], [0.4, 0.4, 0.2, 0.2], [0.3, 0.3, 0.2, 0.2]]
    assert rows_of(boxes, crowd=[False, True, False])[:, 1].tolist() == [0, 2]


def test_flips_mirror_boxes():
    box = [[0.3, 0.2, 0.2, 0.1]]
    none, both = rows_of(box)[0], rows_of(box, change(Recipe(), {"flipud": 1.0, "fliplr": 1.0}))[0]
    assert none[2:].tolist() == pytest.approx([0.3, 0.2, 0.2, 0.1])
    assert both[2:].tolist() == pytest.approx([0.7, 0.8, 0.2, 0.1])
    assert rows_of(box, change(Recipe(), {"fliplr": 1.0}))[0, 2:].tolist() == pytest.approx([0.7, 0.2, 0.2, 0.1])
    assert rows_of(box, change(Recipe(), {"flipud": 1.0}))[0, 2:].tolist() == pytest.approx([0.3, 0.8, 0.2, 0.1])


@pytest.mark.slow
def test_a_polygon_is_cut_where_the_image_ends():
    """A triangle whose tip lies outside: its box ends where the sides cross the edge, not where the tip's box would."""
    triangle = np.array([[0.5, 0.125], [0.875, 0.5], [0.5, 0.875]])
    index = make_index([[100, 100]], [[[0.6875, 0.5, 0.375, 0.75]]], [triangle])
    recipe = change(Recipe(), {"translate": 0.5})
    for position in range(200):
        plan = draw_plan(recipe, [0], [position], np.array([[100, 100]]), 100, 100)
        boxes = transform_labels(place_boxes(plan, index, np.array([[100, 100]])), plan, index)
        dx, dy = plan.matrix_BV33[0, 0, :2, 2]
        # Inside the image the triangle is x >= 50, |y - 50| <= 87.5 - x, shifted; cut on the left it gets lower too.
        x1, x2 = max(50 + dx, 0), min(87.5 + dx, 100)
        half = 37.5 - (x1 - 50 - dx)
        y1, y2 = max(50 + dy - half, 0), min(50 + dy + half, 100)
        if not len(boxes.label) or y1 > 50 + dy - 1 or y2 < 50 + dy + 1:
            continue  # beyond the middle the tip is cut off, too
        assert boxes.corners[0].tolist() == pytest.approx([x1, y1, x2, y2], abs=1e-9)


def test_a_polygon_around_the_whole_image_has_no_edge_in_it():
    """As published: without a point inside there is no box. It takes an enlarged image, where nothing else is seen."""
    square = np.array([[0.01, 0.01], [0.99, 0.01], [0.99, 0.99], [0.01, 0.99]])
    recipe = change(Recipe(), {"scale": (2.0, 2.0)})
    assert len(rows_of([[0.5, 0.5, 0.98, 0.98]], recipe, polygons=[square])) == 0
    assert len(rows_of([[0.5, 0.5, 0.98, 0.98]], recipe)) == 1


def test_images_and_batches_without_boxes():
    index, images = random_set(0, 6, empty=6)
    for name in RECIPES:
        planned = plan_batch(RECIPES[name], index, images)
        assert planned.rows.shape == (0, 6)
        assert planned.rows.dtype == np.float32
    assert rows_of([]).shape == (0, 6)


def test_rows_are_normalised_and_in_the_order_of_images():
    index, images = random_set(0)
    for name, recipe in RECIPES.items():
        rows = plan_batch(recipe, index, images, 12).rows
        assert (np.diff(rows[:, 0]) >= 0).all(), name
        low, high = rows[:, 2:4] - rows[:, 4:] / 2, rows[:, 2:4] + rows[:, 4:] / 2
        assert low.min() > -1e-6 and high.max() < 1 + 1e-6, name


def test_rows_come_from_the_boxes():
    index, images = random_set(0, polygons=False)
    plan = draw_plan(RECIPES["tiny"], np.arange(6), np.arange(6), images.sizes, 64, 64)
    boxes = transform_labels(place_boxes(plan, index, images.sizes), plan, index)
    assert len(to_rows(boxes, plan)) == len(boxes.label) > 0
