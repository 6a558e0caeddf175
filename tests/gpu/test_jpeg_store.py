"""A store of JPEGs on the GPU, and decoded there."""

import importlib.util
import time

import cv2
import numpy as np
import pytest
import torch

from tests.gpu.test_pace import CYCLES_PER_MS
from tests.store.made_up import index_of, some_pictures
from yolofast.loader.device_pixels import DecodedPixels, StagedPixels, device_pixels
from yolofast.store import JpegImages, open_images

NUMBERS = [4, 0, 3, 3]


@pytest.fixture
def index(tmp_path):
    return index_of(some_pictures(tmp_path / "set" / "images", 6))


def test_what_comes_back_are_the_bytes_of_the_file(index):
    on_gpu, choice = open_images(index, 48, 48, "jpeg-gpu", device="cuda", say=print)
    mapped, _ = open_images(index, 48, 48, "jpeg", device="cuda", say=print)
    assert isinstance(on_gpu, JpegImages) and choice.kind == "jpeg-gpu"
    for one, other in zip(on_gpu.encoded(NUMBERS), mapped.encoded(NUMBERS), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(on_gpu.image(2), mapped.image(2))
    on_gpu.replaced[3] = mapped.encoded([5])[0]
    np.testing.assert_array_equal(on_gpu.encoded(NUMBERS)[2], mapped.encoded([5])[0])


def test_they_do_not_wait_for_the_steps_that_are_queued(index):
    images, _ = open_images(index, 48, 48, "jpeg-gpu", device="cuda", say=print)
    images.encoded(NUMBERS)
    torch.cuda.synchronize()
    torch.cuda._sleep(1000 * CYCLES_PER_MS)
    began = time.perf_counter()
    images.encoded(NUMBERS)
    taken = time.perf_counter() - began
    torch.cuda.synchronize()
    assert taken < 0.2


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="nvJPEG comes with torchvision")
@pytest.mark.parametrize("cache", ["jpeg", "jpeg-ram", "jpeg-gpu"])
def test_nvjpeg_is_a_few_levels_apart(index, cache):
    device = torch.device("cuda", 0)
    across, down = np.meshgrid(np.arange(48) * 4, np.arange(32) * 6)
    for number in range(len(index)):  # smooth: of noise, decoders blur the colours differently
        picture = np.stack((across, down, 255 - across), axis=-1).astype(np.uint8)
        cv2.imwrite(str(index.path(number)), picture[:, :: 1 if number % 2 else -1].copy())
    images, _ = open_images(index, 48, 32, cache, device=device, say=print)
    decoded, staged = device_pixels(images, device, 1, "nvjpeg"), StagedPixels(images, device, 1)
    assert isinstance(decoded, DecodedPixels)
    levels = [pixels.fetch(np.array(NUMBERS)).on_device().int() for pixels in (decoded, staged)]
    apart = (levels[0] - levels[1]).abs().float()
    assert apart.mean() < 4, "any other order of colours or pixels is some 60 levels apart"
