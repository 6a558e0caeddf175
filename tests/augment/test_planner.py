"""Arguments of a planner that cannot be meant; what it plans is tested beside each part."""

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
