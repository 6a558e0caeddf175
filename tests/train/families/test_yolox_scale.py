"""YOLOX's sizes change every ten batches of a run, whatever its epochs, and keep the form of the input."""

from itertools import groupby

import numpy as np
import pytest
import torch
from torch.nn import functional

from yolofast.config.yolox_recipe import read_yolox_recipe
from yolofast.structures import Batch, InputConvention, Targets
from yolofast.train.families.multi_scale import YoloXMultiScale
from yolofast.train.families.yolox import largest_input

INPUTS = InputConvention(rgb=False, divisor=1.0)


def scale(**changes):
    settings = {"height": 416, "width": 416, "steps": (10, 20), "batches": 7, "seed": 3}
    return YoloXMultiScale(**settings | changes, as_input=INPUTS.as_input)


def sizes_of(multi_scale, epochs=60):
    return [multi_scale.size(epoch, number) for epoch in range(epochs) for number in range(multi_scale.batches)]


@pytest.mark.slow
def test_sizes_last_ten_batches_across_epochs():
    sizes = sizes_of(scale())
    assert sizes[:10] == [(416, 416)] * 10, "the first ones as trained at"
    blocks = [len(list(same)) for _, same in groupby(sizes)]
    assert all(length % 10 == 0 for length in blocks) and len(blocks) > 20
    assert {height for height, _ in sizes} == {32 * step for step in range(10, 21)}
    assert sizes == sizes_of(scale()) and sizes != sizes_of(scale(seed=4))


def test_two_sides_keep_their_form():
    for height, width in sizes_of(scale(height=800, width=1440, steps=(14, 20)))[10:]:
        assert 448 <= height <= 640 and width == 32 * int(height / 32 * 1.8)


@pytest.mark.slow
def test_the_largest_is_known_before():
    for name in ("yolox-s", "yolox-nano", "nuscenes-stable-v3"):
        recipe = read_yolox_recipe(name, multi_scale=True)
        height, width = recipe.input_size
        sizes = sizes_of(scale(height=height, width=width, steps=recipe.random_size), epochs=300)
        assert largest_input(recipe) == tuple(max(side) for side in zip(*sizes, strict=True))
    assert largest_input(read_yolox_recipe("nuscenes-stable-v3")) == (800, 1440)


def test_levels_are_resized_linearly_and_stay_levels():
    images = torch.randint(0, 256, (2, 3, 416, 416), dtype=torch.uint8)
    batch, multi_scale = Batch(images, Targets.from_rows(torch.zeros(0, 6), 2), np.arange(2)), scale()
    assert torch.equal(multi_scale(batch, 0, 0).images, images.float())
    found = multi_scale(batch, 2, 0)
    size = multi_scale.size(2, 0)
    assert size != (416, 416)
    expected = functional.interpolate(images.float(), size, mode="bilinear", align_corners=False)
    torch.testing.assert_close(found.images, expected)
    assert found.images.is_contiguous(memory_format=torch.channels_last) and found.targets is batch.targets
