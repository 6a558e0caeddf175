"""Recipes: the published values, and mistakes answered with what to write instead."""

import math

import pytest
import yaml

from yolofast.augment.recipe import Recipe, change
from yolofast.errors import UserError
from yolofast.resources import find_resource

# facts of the published hyper-parameter files: translate, scale, mixup, paste_in
PUBLISHED = {
    "tiny": (0.1, 0.5, 0.05, 0.05),
    "p5": (0.2, 0.9, 0.15, 0.15),
    "p6": (0.2, 0.9, 0.15, 0.15),
    "custom": (0.2, 0.5, 0.0, 0.0),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files(name):
    recipe = Recipe.from_hyp(yaml.safe_load(find_resource(f"hyp.scratch.{name}", "hyp").read_text()))
    translate, scale, mixup, paste_in = PUBLISHED[name]
    assert recipe == Recipe(
        style="yolov7", mosaic=1.0, nine=0.2, mixup=mixup, paste_in=paste_in, copy_paste=0.0, degrees=0.0,
        translate=translate, scale=(1 - scale, 1.1 + scale), shear=0.0, perspective=0.0, hsv=(0.015, 0.7, 0.4),
        colour=1.0, flipud=0.0, fliplr=0.5,
    )  # fmt: skip


def test_yolox():
    recipe = Recipe.yolox()
    assert (recipe.mosaic, recipe.mixup, recipe.colour, recipe.fliplr) == (1.0, 1.0, 1.0, 0.5)
    assert (recipe.degrees, recipe.translate, recipe.shear) == (10.0, 0.1, 2.0)
    assert (recipe.scale, recipe.mixup_scale, recipe.hsv) == ((0.1, 2.0), (0.5, 1.5), (5.0, 30.0, 30.0))
    assert recipe.nine == 0.0
    small = Recipe.yolox(mosaic=0.5, mixup=0.0, scale=(0.5, 1.5))
    assert (small.mosaic, small.mixup, small.scale, small.degrees) == (0.5, 0.0, (0.5, 1.5), 10.0)


def test_the_last_epochs_keep_colour_flips_and_the_transform():
    recipe = Recipe.from_hyp(
        {"mosaic": 1, "mixup": 0.1, "paste_in": 0.1, "copy_paste": 0.1, "scale": 0.5, "fliplr": 0.5}
    )
    last = recipe.without_mosaic()
    assert (last.mosaic, last.mixup, last.paste_in, last.copy_paste) == (0, 0, 0, 0)
    assert (last.scale, last.fliplr, last.hsv) == (recipe.scale, 0.5, recipe.hsv)


def test_no_hyper_parameter_is_no_augmentation_apart_from_the_scale():
    assert change(Recipe.from_hyp({"lr0": 0.01}), {"scale": (1.0, 1.0)}) == Recipe()


@pytest.mark.parametrize(
    ("hyp", "message"),
    [
        ({"mosaic": 1.5}, "mosaic is 1.5.*probability"),
        ({"fliplr": -0.1}, "fliplr is -0.1"),
        ({"mixup": "often"}, "mixup is 'often'.*give a number"),
        ({"mixup": None}, "mixup is None"),
        ({"mixup": True}, "mixup is True"),
        ({"paste_in": math.nan}, "paste_in is nan"),
        ({"hsv_s": math.nan}, "hsv_s is nan"),
        ({"translate": math.inf}, "translate is inf"),
        ({"degrees": 10**400}, "degrees is"),
        ({"scale": 1.0}, "scale is 1.*below 1"),
        ({"scale": -0.5}, "scale is -0.5"),
        ({"degrees": 200}, "degrees is 200"),
        ({"shear": 90}, "shear 90"),
        ({"perspective": 0.5}, "perspective 0.5.*at most 0.001"),
        ({"hsv_v": -1}, "hsv"),
    ],
)
def test_bad_hyper_parameters(hyp, message):
    with pytest.raises(UserError, match="(?s)" + message):
        Recipe.from_hyp(hyp)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mosiac": 1.0}, "no mosiac, did you mean 'mosaic'"),
        ({"scale": (1.5, 0.5)}, "scale ranges from 1.5 to 0.5"),
        ({"mixup_scale": (0.0, 1.0)}, "mixup_scale ranges from 0"),
        ({"scale": 0.5}, "scale is 0.5.*2 numbers"),
        ({"hsv": (1.0, 2.0)}, "hsv is .*3 numbers"),
        ({"hsv": (1.0, 2.0, "3")}, "hsv is '3'"),
        ({"style": "yolov5"}, "style is 'yolov5'.*yolov7 or yolox"),
    ],
)
def test_bad_changes(changes, message):
    with pytest.raises(UserError, match="(?s)" + message):
        Recipe.yolox(**changes)


def test_weaker_is_less_of_everything_but_mirroring():
    full = Recipe(
        mosaic=1.0, mixup=0.4, paste_in=0.2, copy_paste=0.6, degrees=10.0, translate=0.2, scale=(0.5, 1.6), shear=2.0,
        perspective=0.001, hsv=(0.02, 0.7, 0.4), fliplr=0.5, flipud=0.1,
    )  # fmt: skip
    half = Recipe(
        mosaic=0.5, mixup=0.2, paste_in=0.1, copy_paste=0.3, degrees=5.0, translate=0.1, scale=(0.75, 1.3), shear=1.0,
        perspective=0.0005, hsv=(0.01, 0.35, 0.2), fliplr=0.5, flipud=0.1,
    )  # fmt: skip
    assert full.weakened(0.5) == half and full.weakened(1.0) == full
    none = full.weakened(0.0)
    assert none == Recipe(fliplr=0.5, flipud=0.1)
