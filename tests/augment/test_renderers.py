"""One plan, three renderers: OpenCV and torch agree within rounding, Triton is torch exactly."""

import os
import sys

import cv2
import numpy as np
import pytest
import torch

from tests import programs
from tests.augment.made_up import RECIPES, TINY, make_index, pack, picture, plan_batch, planner_for, random_set
from yolofast.augment import render_cv2, render_torch
from yolofast.augment.plan import FILL
from yolofast.augment.recipe import Recipe, change
from yolofast.augment.render_table import build_table

STILL = {"scale": (1.0, 1.0), "translate": 0.0, "hsv": (0.0, 0.0, 0.0)}
# Everything that moves whole pixels only.
UNMIXED = {
    "nothing": Recipe(),
    "flips": change(Recipe(), {"flipud": 0.5, "fliplr": 0.5}),
    "four": change(TINY, STILL | {"mixup": 0.0, "paste_in": 0.0, "nine": 0.0}),
    "nine": change(TINY, STILL | {"mixup": 0.0, "paste_in": 0.0, "nine": 1.0}),
    "copies": change(TINY, STILL | {"mixup": 0.0, "paste_in": 0.0, "copy_paste": 1.0}),
    "yolox alone": Recipe.yolox(hsv=(0.0, 0.0, 0.0)).without_mosaic(),
    "yolox": Recipe.yolox(
        hsv=(0.0,) * 3, degrees=0.0, shear=0.0, translate=0.0, scale=(1.0, 1.0), mixup_scale=(1.0, 1.0)
    ),
}


def both(recipe, index, images, width=64, height=64, batch=6, rgb=True, epoch=0):
    plan = plan_batch(recipe, index, images, batch, width, height, epoch).plan
    by_cv2 = np.full((batch, 3, height, width), 7, np.uint8)
    render_cv2.render(plan, images, by_cv2, rgb=rgb)
    by_torch = render_torch.render(plan, images, rgb=rgb)
    assert by_torch.dtype == torch.uint8 and by_torch.shape == by_cv2.shape
    return by_cv2.astype(int), by_torch.numpy().astype(int), plan


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(64, 64), (96, 48)])
@pytest.mark.parametrize("name", RECIPES)
def test_opencv_and_torch_agree(name, width, height):
    """OpenCV places pixels to 1/32 and keeps hues in tables, which is where the last levels come from."""
    index, images = random_set(1, 12, width, height)
    by_cv2, by_torch, _ = both(RECIPES[name], index, images, width, height)
    apart = np.abs(by_cv2 - by_torch)
    assert apart.mean() < 0.1
    assert (apart > 10).mean() < 1e-4
    assert by_cv2.std() > 20, "there is something to see"


def test_the_recipes_paste_copy_and_blend():
    index, images = random_set(1, 12)
    assert len(plan_batch(RECIPES["paste"], index, images).plan.pastes.image)
    assert len(plan_batch(RECIPES["copy"], index, images).plan.copies.view)
    assert (plan_batch(RECIPES["mixup"], index, images).plan.blend_B < 1).all()
    assert (plan_batch(RECIPES["yolox"], index, images).plan.blend_B < 1).any()


@pytest.mark.parametrize("name", UNMIXED)
def test_identical_where_nothing_is_interpolated(name):
    index, images = random_set(2, 12, 64, 48)
    by_cv2, by_torch, _ = both(UNMIXED[name], index, images, 64, 48)
    assert np.array_equal(by_cv2, by_torch)


def test_an_image_alone_is_its_pixels_on_grey():
    index, images = random_set(2, 4, 64, 64)
    by_cv2, _, plan = both(Recipe(), index, images, batch=4, rgb=False)
    for b in range(4):
        expected = np.full((64, 64, 3), FILL)
        x1, y1, x2, y2 = plan.tile_BVT4[b, 0, 0]
        expected[y1:y2, x1:x2] = images.image(b)
        assert np.array_equal(by_cv2[b].transpose(1, 2, 0), expected)


def test_four_images_meet_in_the_centre():
    """Plain colours, no transform but the crop of the middle: a pixel's colour says which tile it is from."""
    colours = [(10, 20, 30), (60, 70, 80), (110, 120, 130), (160, 170, 180)]
    images = pack([np.full((64, 64, 3), colour, np.uint8) for colour in colours])
    index = make_index([[64, 64]] * 4, [[]] * 4)
    recipe = change(TINY, STILL | {"nine": 0.0, "mixup": 0.0, "fliplr": 0.0})
    by_cv2, by_torch, plan = both(recipe, index, images, batch=4, rgb=False)
    for b in range(4):
        x, y = plan.corner_BVT2[b, 0, 3] - 32  # the centre, seen from the output's corner
        quadrants = (
            (slice(0, y), slice(0, x)),
            (slice(0, y), slice(x, 64)),
            (slice(y, 64), slice(0, x)),
            (slice(y, 64), slice(x, 64)),
        )
        for tile, (rows, columns) in enumerate(quadrants):
            part = by_cv2[b][:, rows, columns]
            assert (part == np.reshape(colours[plan.source_BVT[b, 0, tile]], (3, 1, 1))).all()
    assert np.array_equal(by_cv2, by_torch)


def test_rgb_is_bgr_turned_round():
    index, images = random_set(1, 8)
    bgr, rgb = both(TINY, index, images, rgb=False), both(TINY, index, images, rgb=True)
    for turned, straight in zip(rgb[:2], bgr[:2], strict=True):
        assert np.array_equal(turned, straight[:, ::-1])


def test_blending_rounds_down_as_bytes_do():
    images = pack([np.full((32, 32, 3), level, np.uint8) for level in (10, 101)])
    index = make_index([[32, 32]] * 2, [[[0.5, 0.5, 0.5, 0.5]]] * 2)
    recipe = Recipe.yolox(
        hsv=(0.0,) * 3, degrees=0.0, shear=0.0, translate=0.0, scale=(1.0, 1.0), mixup_scale=(1.0, 1.0)
    )
    by_cv2, by_torch, plan = both(recipe, index, images, 32, 32, batch=20)
    assert np.array_equal(by_cv2, by_torch)
    assert set(np.unique(by_cv2[plan.blend_B < 1])) <= {10, 55, 101, (10 + FILL) // 2, (101 + FILL) // 2, FILL}
    assert 55 in by_cv2


def many_colours():
    """A coarse grid with greys and pure colours, and random ones. A regular grid alone is full of ties."""
    levels = np.array([0, 1, 64, 127, 128, 254, 255], np.uint8)
    grid = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(-1, 3)
    drawn = np.random.default_rng(0).integers(0, 256, (32 * 1000 - len(grid), 3), np.uint8)
    return np.concatenate((grid, drawn))[None]  # whole vectors of OpenCV: it rounds otherwise in what is left over


@pytest.mark.parametrize("additive", [False, True])
def test_colours_change_as_opencv_changes_them(additive):
    """Many colours, several changes.

    OpenCV divides by a table of reciprocals, so a hue between two of its 180 steps may become the other one, and the
    gain may make two steps of it. A step is 255 / 30 levels.
    """
    image = many_colours()
    generator = np.random.default_rng(0)
    for _ in range(12):
        change_3 = generator.uniform(-1, 1, 3) * ((5, 30, 30) if additive else (0.015, 0.7, 0.4))
        change_3 = np.trunc(change_3) if additive else 1 + change_3
        expected = render_cv2._coloured(image, change_3, additive).astype(int)
        levels = torch.from_numpy(image).float()[None]
        actual = render_torch.change_colour(levels, torch.from_numpy(change_3[None]).float(), additive)[0].numpy()
        apart = np.abs(actual - expected)
        assert apart.max() <= 17
        assert (apart > 9).mean() < 1e-3
        assert apart.mean() < 0.25


def test_hue_saturation_and_value_are_opencvs():
    image = many_colours()
    hsv = cv2.cvtColor(image, cv2.COLOR_BGR2HSV).astype(int)
    hue, saturation, value = (
        channel.numpy().astype(int) for channel in render_torch._to_hsv(torch.from_numpy(image).float())
    )
    around = np.abs(hue - hsv[..., 0])
    assert np.minimum(around, 180 - around).max() <= 1
    assert (around != 0).mean() < 0.02, "only ties"
    assert np.array_equal(value, hsv[..., 2])
    assert np.abs(saturation - hsv[..., 1]).max() <= 1
    assert (saturation != hsv[..., 1]).mean() < 0.01


def test_colours_that_do_not_change_are_untouched():
    """To HSV and back loses levels; images that keep their colour must not go there."""
    image = torch.from_numpy(many_colours()).float()[None].repeat(2, 1, 1, 1)
    changed = render_torch.change_colour(image, torch.tensor([[1.0, 1, 1], [1.0, 1, 0.5]]), False)
    assert torch.equal(changed[0], image[0])
    assert not torch.equal(changed[1], image[1])
    assert torch.equal(render_torch.change_colour(image, torch.zeros(2, 3), True), image)


@pytest.mark.slow
def test_a_table_of_some_images_renders_those():
    index, images = random_set(1, 12)
    for name in ("paste", "copy"):
        plan = plan_batch(RECIPES[name], index, images, 6).plan
        table = build_table(plan, images.starts, images.sizes).to("cpu")
        whole = render_torch.render_table(table, images.data, 64, 64, False, rgb=True)
        for part in (slice(0, 2), slice(2, 5), slice(5, 6)):
            alone = render_torch.render_table(table.of_images(part), images.data, 64, 64, False, rgb=True)
            assert torch.equal(alone, whole[part])


@pytest.mark.slow
def test_pixels_replay_whatever_the_batch():
    index, images = random_set(1, 12)
    planner = planner_for(RECIPES["copy"], index, images)
    together = render_torch.render(planner.plan(np.arange(6), np.arange(6), 1).plan, images)
    for b in range(6):
        assert torch.equal(render_torch.render(planner.plan([b], [b], 1).plan, images)[0], together[b])


def test_the_first_and_last_bytes_of_the_store_are_reached():
    """Images at both ends, turned so that reading beyond them would show."""
    images = pack([picture(64, 64, 0)])
    index = make_index([[64, 64]], [[]])
    by_cv2, by_torch, _ = both(change(Recipe(), {"degrees": 180.0, "scale": (0.3, 0.5)}), index, images)
    assert np.abs(by_cv2 - by_torch).mean() < 0.6


@pytest.mark.slow
def test_triton_is_torch():
    """In a process of its own: Triton interprets or compiles for good from the moment it is imported."""
    pytest.importorskip("triton")
    script = """
import torch
from tests.augment.made_up import RECIPES, plan_batch, random_set
from yolofast.augment import render_torch, render_triton
compared = 0
for name, recipe in RECIPES.items():
    # The interpreter is slow, but objects are pasted only into slots of more than 20 pixels.
    width, height, batch = (40, 40, 1) if name == "paste" else (20, 12, 2)
    index, images = random_set(1, 12, width, height)
    plan = plan_batch(recipe, index, images, batch, width, height, epoch=6 if name == "paste" else 0).plan
    assert len(plan.pastes.image) or name != "paste"
    assert len(plan.copies.view) or name != "copy"
    assert (plan.blend_B < 1).any() or name not in ("mixup", "yolox")
    expected = render_torch.render(plan, images, rgb=name != "tiny")
    levels = render_triton.render(plan, images, torch.zeros_like(expected), rgb=name != "tiny")
    assert torch.equal(levels, expected), name
    if name in ("tiny", "yolox"):
        floats = torch.zeros(expected.shape)
        render_triton.render(plan, images, floats, rgb=name != "tiny", gain=1 / 255)
        assert torch.equal(floats, expected.float() * torch.tensor(1 / 255)), name
    compared += 1
print(compared)
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = programs.run([sys.executable, "-c", script], env=environment, cwd=programs.ROOT)
    assert done.stdout.strip() == str(len(RECIPES)), done.stderr
