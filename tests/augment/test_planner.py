"""Arguments of a planner that cannot be meant, and how many boxes it leaves; the rest is tested beside each part."""

import numpy as np
import pytest

from tests.augment.made_up import random_set
from yolofast.augment.planner import Planner
from yolofast.augment.recipe import Recipe
from yolofast.errors import UserError


@pytest.mark.parametrize(
    ("width", "height", "seed", "taken", "message"),
    [
        (0, 64, 0, 5, "images of 0×64 pixels"),
        (64, -1, 0, 5, "images of 64×-1 pixels"),
        (64, 64, -1, 5, "the seed is -1"),
        (64, 64, 2**64, 5, "the seed is 18446744073709551616"),
        (64, 64, 0, 4, r"sizes have shape \(4, 2\), but there are 5 images"),
    ],
)
def test_mistakes(width, height, seed, taken, message):
    index, images = random_set(0, 5)
    with pytest.raises(UserError, match=message):
        Planner(index, images.sizes[:taken], Recipe(), width, height, seed=seed)


def test_boxes_beyond_the_most_are_left_out_the_last_ones_first():
    """So many of an image by itself, more of a mosaic."""
    index, images = random_set(0, 12)
    recipe = Recipe.yolox(mosaic=0.5)
    few, all_of_them = (
        Planner(index, images.sizes, recipe, 64, 64, most_boxes=most) for most in ((2, 5), None)
    )  # fmt: skip
    positions = np.arange(40)
    kept, full = few.plan(positions % 12, positions, 0), all_of_them.plan(positions % 12, positions, 0)
    mosaics = full.plan.canvas_BV2[:, 0, 0] == 128
    assert 0 < mosaics.sum() < 40
    cut = 0
    for image in positions:
        rows = full.rows[full.rows[:, 0] == image]
        most = 5 if mosaics[image] else 2
        assert np.array_equal(kept.rows[kept.rows[:, 0] == image], rows[:most])
        cut += len(rows) > most
    assert cut > 5
    changed = few.changed(64, 64, mosaic=False)
    assert changed.most_boxes == (2, 5)
    assert few.changed(64, 64, mosaic=False) is changed, "made once"
    assert few.changed(64, 64, mosaic=True) is few
    assert (changed.changed(32, 96, mosaic=True).height, changed.changed(32, 96, mosaic=True).width) == (32, 96)
