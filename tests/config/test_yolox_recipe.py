"""The published recipes as files, and what follows from them."""

import pytest

from yolofast.augment.recipe import Recipe
from yolofast.config.yolox_recipe import YoloXRecipe, read_yolox_recipe, shape_in_form
from yolofast.errors import UserError
from yolofast.optim.schedule import YoloXSchedule
from yolofast.resources import short_names

ITERATIONS = 666
"""Of an epoch on nuScenes: 21,332 images, batch 32."""


def test_every_packaged_recipe_can_be_read_and_used():
    names = short_names("recipe")
    assert len(names) == 10
    for name in names:
        recipe = read_yolox_recipe(name)
        Recipe.yolox(**recipe.augmentation())
        YoloXSchedule(**recipe.schedule(100, recipe.batch_size))


def test_recipes_of_coco():
    nano, tiny, large = (read_yolox_recipe(f"yolox-{size}") for size in ("nano", "tiny", "l"))
    assert large == YoloXRecipe(model="yolox-l")
    assert Recipe.yolox(**large.augmentation()) == Recipe.yolox(), "the augmentation's own defaults are the published"
    assert (nano.input_size, nano.random_size, nano.mixup_prob, nano.mosaic_prob) == ((416, 416), (10, 20), 0, 0.5)
    assert (tiny.mosaic_scale, tiny.mosaic_prob) == ((0.5, 1.5), 1.0)
    assert large.lr(64) == 0.01
    assert large.closes_at == 284  # 1-based epoch 285 = 300 - 15


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("original", (4.74e-4, 3.76e-4, 2.38e-4, 1.05e-4, 2.0e-5, 5e-6)),
        ("smooth-v2", (3.84e-4, 2.97e-4, 1.71e-4, 6.3e-5, 2e-5, 2e-5)),
        ("stable-v3", (2.93e-4, 2.19e-4, 1.11e-4, 3.7e-5, 3e-5, 3e-5)),
    ],
)
def test_learning_rates_of_nuscenes(name, rates):
    """At the end of epochs 5, 10 … 30, as the published schedule computes them."""
    recipe = read_yolox_recipe(f"nuscenes-{name}")
    schedule = YoloXSchedule(**recipe.schedule(ITERATIONS, recipe.batch_size))
    for epoch, rate in zip(range(5, 31, 5), rates, strict=True):
        assert schedule.rate(epoch * ITERATIONS) == pytest.approx(rate, rel=0.02)
    assert recipe.closes_at is None, "those scripts never close mosaic"


def test_clean_v2():
    recipe = read_yolox_recipe("nuscenes-clean-v2")
    assert recipe.lr(recipe.batch_size) == pytest.approx(0.000125)
    assert (recipe.epochs, recipe.warmup_epochs, recipe.no_aug_epochs, recipe.input_size) == (10, 1, 2, (800, 1440))


def test_values_may_be_changed():
    assert read_yolox_recipe("yolox-s", epochs=20, no_aug_epochs=3).closes_at == 16


def test_values_may_be_set_one_by_one():
    typed = ("mosaic_prob=0.3", "input_size=800,1440", "mixup_scale=[0.9, 1.1]", "ema=false", "basic_lr_per_img=1e-5")
    recipe = read_yolox_recipe("yolox-s", (*typed, "simota_version=vendored"))
    assert (recipe.mosaic_prob, recipe.input_size, recipe.mixup_scale) == (0.3, (800, 1440), (0.9, 1.1))
    assert (recipe.ema, recipe.basic_lr_per_img, recipe.simota_version) == (False, 1e-5, "vendored")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("mosaik_prob=1", "--set: a YOLOX recipe has no 'mosaik_prob', did you mean 'mosaic_prob'"),
        ("mosaic_prob", "--set 'mosaic_prob' sets nothing"),
        ("mosaic_prob=", "sets nothing"),
        ("mosaic_prob=2", "--set: mosaic_prob is 2"),
        ("mosaic_prob=[", "is not valid YAML"),
        ("mosaic_prob=high", "mosaic_prob is 'high'"),
        ("epochs=10", "--epochs 10"),
        ("freeze=backbone,neck", "--freeze backbone neck"),
        ("batch_size=8", "--batch-size 8"),
        ("simota_version=old", "use current or vendored"),
        ("max_labels=0,10", "max_labels is"),
        ("warmup_epochs=290", "290 epochs of warm-up and 15 without augmentation do not fit"),
    ],
)
def test_wrong_settings_are_named(typed, message):
    with pytest.raises(UserError, match=message):
        read_yolox_recipe("yolox-s", (typed,))


def test_a_short_run_has_short_ends():
    recipe = read_yolox_recipe("yolox-s")

    def ends(epochs, keep=()):
        found = recipe.for_run(epochs, (640, 640), keep)
        return found.warmup_epochs, found.no_aug_epochs

    assert ends(300) == ends(100) == ends(40) == (5, 15)
    assert ends(30) == (1, 2) and ends(10) == ends(3) == (1, 1) and ends(1) == (0, 0)
    assert ends(30, keep=("no_aug_epochs",)) == (1, 15)
    with pytest.raises(UserError, match="do not fit 10 epochs"):
        recipe.for_run(10, (640, 640), keep=("no_aug_epochs",))


def test_another_size_keeps_the_form():
    wide = read_yolox_recipe("nuscenes-stable-v3")
    assert wide.for_run(30, (800, 1440)) == wide
    sizes = [shape_in_form(wide.input_size, side) for side in (1440, 704, 32)]
    assert sizes == [(800, 1440), (384, 704), (32, 32)]
    small = read_yolox_recipe("yolox-nano").for_run(300, (224, 384))
    assert (small.input_size, small.random_size) == ((224, 384), (5, 11)), "heights follow the height"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mosaik_prob: 0.5", r"mine.yaml:1: a YOLOX recipe has no 'mosaik_prob', did you mean 'mosaic_prob'"),
        ("epochs: 10.5", "epochs is 10.5"),
        ("epochs: true", "epochs is True"),
        ("epochs: 10", "5 epochs of warm-up and 15 without augmentation do not fit 10 epochs"),
        ("model: s\nmosaic_prob: 1.5", "mine.yaml:2: mosaic_prob is 1.5"),
        ("mosaic_scale: 0.5", "mosaic_scale is 0.5"),
        ("mosaic_scale: [2, 1]", "mosaic_scale is"),
        ("random_size: [1.5, 2]", "random_size is"),
        ("input_size: [100, 640]", "input_size is"),
        ("basic_lr_per_img: '1e-4'", "basic_lr_per_img is '1e-4'"),
        ("basic_lr_per_img: 2e1", "basic_lr_per_img is 20"),
        ("momentum: .nan", "momentum is nan"),
        ("ema: 1", "ema is 1"),
        ("freeze: backbone", r"freeze is 'backbone'"),
        ("freeze: [3]", r"freeze is \[3\]"),
    ],
)
def test_wrong_values_are_named(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text + "\n")
    with pytest.raises(UserError, match=message):
        read_yolox_recipe(path)


def test_a_file_may_say_numbers_with_an_exponent(tmp_path):
    (tmp_path / "mine.yaml").write_text("basic_lr_per_img: 2e-5\nmosaic_scale: [5e-1, 15E-1]\n")
    recipe = read_yolox_recipe(tmp_path / "mine.yaml")
    assert (recipe.basic_lr_per_img, recipe.mosaic_scale) == (2e-5, (0.5, 1.5))
