"""What only a GPU can show of augmentation: the compiled kernel is the torch renderer, and loading never waits."""

import dataclasses

import numpy as np
import pytest
import torch

from tests.augment.made_up import RECIPES, pack, plan_batch, planner_for, random_set
from yolofast.augment import render_torch, render_triton
from yolofast.loader.device_loader import DeviceLoader, InputFormat
from yolofast.loader.device_pixels import PinnedPixels, ResidentPixels, StagedPixels
from yolofast.loader.order import EpochOrder

SIZE, COUNT, BATCH = 320, 40, 8
CUDA = torch.device("cuda")
LEVELS = InputFormat(dtype=torch.uint8, gain=1)


@pytest.fixture(scope="module")
def data():
    """Index and images; each image at a multiple of 8 bytes."""
    index, images = random_set(1, COUNT, SIZE, SIZE)
    return index, pack([images.image(i) for i in range(COUNT)], aligned=8)


def on_gpu(images):
    return dataclasses.replace(images, data=images.data.cuda())


def assert_same_levels(actual, expected):
    """A level may round the other way where coordinates are multiplied and added in one step; colours then follow."""
    apart = (actual.int() - expected.int()).abs()
    assert (apart > 0).float().mean() <= 1e-3
    assert (apart > 1).float().mean() <= 1e-4


@pytest.mark.parametrize("name", RECIPES)
def test_the_kernel_is_the_torch_renderer(data, name):
    index, images = data
    plan = plan_batch(RECIPES[name], index, images, 16, SIZE, SIZE).plan
    there = on_gpu(images)
    expected = render_torch.render(plan, there)
    assert_same_levels(render_triton.render(plan, there, torch.zeros_like(expected)), expected)
    assert_same_levels(expected.cpu(), render_torch.render(plan, images))


@pytest.mark.parametrize("name", ["tiny", "yolox"])
def test_every_type_and_order_of_memory_holds_the_same(data, name):
    index, images = data
    plan, there = plan_batch(RECIPES[name], index, images, 16, SIZE, SIZE).plan, on_gpu(images)
    shape = (16, 3, SIZE, SIZE)
    floats = render_triton.render(plan, there, torch.empty(shape, device="cuda"), gain=1 / 255)
    levels = render_triton.render(plan, there, torch.empty(shape, dtype=torch.uint8, device="cuda"))
    assert (floats * 255 - levels).abs().max() < 1e-3
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        out = torch.empty(shape, dtype=dtype, device="cuda", memory_format=torch.channels_last)
        render_triton.render(plan, there, out, gain=1 / 255)
        assert torch.equal(out, floats.to(dtype))
    turned = render_triton.render(plan, there, torch.empty_like(levels), rgb=False)
    assert torch.equal(turned, levels.flip(1))


def test_a_size_that_is_no_multiple_of_anything(data):
    index, images = random_set(2, 12, 201, 117)
    plan, there = plan_batch(RECIPES["copy"], index, images, 5, 201, 117).plan, on_gpu(images)
    expected = render_torch.render(plan, there)
    assert_same_levels(render_triton.render(plan, there, torch.zeros_like(expected)), expected)


def pixels_of_every_kind(images):
    pinned = dataclasses.replace(images, data=images.data.pin_memory())
    assert PinnedPixels.possible(pinned, CUDA)
    return {
        "resident": ResidentPixels(on_gpu(images)),
        "pinned": PinnedPixels(pinned, CUDA),
        "staged": StagedPixels(images, CUDA, threads=4),
    }


def loader_for(data, pixels, name="tiny", device="cuda", **more):
    index, images = data
    planner = planner_for(RECIPES[name], index, images, SIZE, SIZE, seed=5)
    order = EpochOrder(COUNT - 3, seed=1, shuffle=True, batch_size=BATCH)
    return DeviceLoader(planner, pixels, order, device, **{"input_format": LEVELS, "capacity": 128, **more})


def kept(batches):
    """Copies on the host: a batch is only lent."""
    return [
        (b.images.cpu().clone(), b.targets.boxes.cpu(), b.targets.labels.cpu(), b.targets.valid.cpu(), b.sources)
        for b in batches
    ]


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("name", ["tiny", "paste", "copy", "yolox"])
def test_wherever_the_pixels_are_the_batches_are_the_same(data, name, slots):
    kinds = pixels_of_every_kind(data[1])
    made = {kind: kept(loader_for(data, pixels, name, slots=slots).epoch(1)) for kind, pixels in kinds.items()}
    made["cpu"] = kept(loader_for(data, ResidentPixels(data[1]), name, device="cpu").epoch(1))
    assert [len(images) for images, *_ in made["cpu"]] == [8, 8, 8, 8, 5]
    for kind, batches in made.items():
        for batch, on_cpu, resident in zip(batches, made["cpu"], made["resident"], strict=True):
            assert_same_levels(batch[0], on_cpu[0])
            assert kind == "cpu" or torch.equal(batch[0], resident[0]), kind
            assert all(torch.equal(a, b) for a, b in zip(batch[1:4], on_cpu[1:4], strict=True))
            assert np.array_equal(batch[4], on_cpu[4])
    kinds["staged"].close()


@pytest.mark.parametrize("kind", ["resident", "pinned", "staged"])
def test_loading_never_waits_for_the_device(data, kind):
    pixels = pixels_of_every_kind(data[1])
    loader = loader_for(data, pixels[kind], input_format=InputFormat(dtype=torch.bfloat16))
    weights = torch.rand(3, 3, device="cuda", dtype=torch.bfloat16)
    total = torch.zeros((), device="cuda")

    def consume(epoch):
        for batch in loader.epoch(epoch):
            mixed = torch.einsum("bchw,cd->bdhw", batch.images, weights)
            total.add_(mixed.float().sum() + batch.targets.boxes.sum())

    consume(0)  # the first time may compile kernels
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        consume(1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert total.isfinite()
    pixels["staged"].close()


def test_a_slow_consumer_still_sees_its_own_batch(data):
    """The side stream must not write into a buffer that is still read: here reading takes far longer than writing."""
    loader = loader_for(data, ResidentPixels(on_gpu(data[1])))
    expected = kept(loader.epoch(0))
    seen = []
    for batch in loader.epoch(0):
        torch.cuda._sleep(20_000_000)
        seen.append(batch.images.clone())
    for images, (before, *_) in zip(seen, expected, strict=True):
        assert torch.equal(images.cpu(), before)
