"""Sizes change from batch to batch, the same for everybody, and pixels are resized as published."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from yolofast.structures import Batch, InputConvention, Targets
from yolofast.train.families.multi_scale import MultiScale

SCALE = MultiScale(size=320, stride=32, seed=3, as_input=InputConvention().as_input)


def batch_of(height, width, dtype=torch.uint8):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (2, 3, height, width), generator=generator, dtype=torch.uint8)
    images = images if dtype is torch.uint8 else images.to(dtype) / 255
    return Batch(images, Targets.from_rows(torch.zeros(0, 6), 2), np.arange(2))


@pytest.mark.slow
def test_sizes_are_multiples_of_the_stride_and_depend_on_epoch_and_batch_alone():
    batch = batch_of(320, 320)
    sizes = [SCALE(batch, 1, number).images.shape[2:] for number in range(60)]
    assert all(height == width and height % 32 == 0 and 160 <= height <= 512 for height, width in sizes)
    assert len(set(sizes)) > 6
    assert sizes == [SCALE(batch, 1, number).images.shape[2:] for number in range(60)]
    assert sizes != [SCALE(batch, 2, number).images.shape[2:] for number in range(60)]


@pytest.mark.slow
def test_levels_become_inputs_and_are_resized_linearly():
    number = next(n for n in range(99) if SCALE(batch_of(320, 320), 0, n).images.shape[2] == 224)
    images = SCALE(batch_of(320, 320), 0, number).images
    expected = functional.interpolate(
        batch_of(320, 320).images.float() / 255, (224, 224), mode="bilinear", align_corners=False
    )
    torch.testing.assert_close(images, expected)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(SCALE(batch_of(320, 320, torch.float32), 0, number).images, images)


def test_rectangles_keep_their_form_as_far_as_strides_allow():
    number = next(n for n in range(99) if SCALE(batch_of(320, 320), 0, n).images.shape[2] == 160)
    assert SCALE(batch_of(192, 320), 0, number).images.shape[2:] == (96, 160)
    assert SCALE(batch_of(640, 640), 0, number).images.shape[2:] == (320, 320), "--quad doubles the size"
