"""Batches made on the device, with the CPU as the device: wherever the pixels are kept, the same batches."""

import threading

import numpy as np
import pytest
import torch

from tests.augment.made_up import RECIPES, planner_for, random_set
from yolofast.augment import render_torch
from yolofast.loader.device_loader import DeviceLoader, InputFormat
from yolofast.loader.device_pixels import ResidentPixels, StagedPixels
from yolofast.loader.order import EpochOrder, rect_order, rect_shapes
from yolofast.structures import bucketed

pytestmark = pytest.mark.slow

LEVELS = InputFormat(dtype=torch.uint8, gain=1)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data():
    return random_set(1, 30)


def order_of(batch):
    """Every image once, the last batch as large as it comes."""
    return EpochOrder(30, seed=3, shuffle=True, batch_size=batch)


def loader_for(data, name="tiny", pixels=None, batch=4, **more):
    index, images = data
    planner = planner_for(RECIPES[name], index, images, seed=5)
    return DeviceLoader(planner, pixels or ResidentPixels(images), order_of(batch), "cpu", **{"capacity": 64, **more})


def kept(batches):
    """Copies: a batch is only lent."""
    return [(b.images.clone(), b.targets.boxes, b.targets.labels, b.targets.valid, b.sources) for b in batches]


def assert_same(first, second):
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one[:4], other[:4], strict=True))
        assert np.array_equal(one[4], other[4])


@pytest.mark.parametrize("name", ["tiny", "paste", "yolox"])
def test_batches_are_what_planning_and_rendering_give(data, name):
    index, images = data
    planner = planner_for(RECIPES[name], index, images, seed=5)
    made = kept(loader_for(data, name, input_format=LEVELS).epoch(2))
    assert len(made) == 8
    for (pixels, boxes, labels, valid, sources), batch in zip(made, order_of(4).batches(2), strict=True):
        chosen = batch.images
        planned = planner.plan(chosen, batch.positions, 2)
        assert torch.equal(pixels, render_torch.render(planned.plan, images))
        assert np.array_equal(sources, chosen)
        for b in range(len(chosen)):
            rows = planned.rows[planned.rows[:, 0] == b]
            assert torch.equal(boxes[b][valid[b]], torch.from_numpy(rows[:, 2:]))
            assert labels[b][valid[b]].tolist() == rows[:, 1].tolist()


def test_every_batch_has_the_places_it_needs_itself(data):
    """Not those of the fullest among the batches that were planned with it."""
    wide, own = kept(loader_for(data).epoch(2)), kept(loader_for(data, capacity=None).epoch(2))
    seen = set()
    for (_, boxes, labels, valid, _), (_, few_boxes, few_labels, few_valid, _) in zip(wide, own, strict=True):
        places = few_valid.shape[1]
        assert places == bucketed(int(valid.sum(1).max())) and not valid[:, places:].any()
        assert torch.equal(boxes[:, :places], few_boxes) and torch.equal(labels[:, :places], few_labels)
        assert torch.equal(valid[:, :places], few_valid) and few_boxes.is_contiguous()
        seen.add(places)
    assert len(seen) > 1


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("name", ["tiny", "copy", "paste"])
def test_resident_and_staged_pixels_give_the_same(data, name, slots):
    staged = StagedPixels(data[1], CPU, threads=2)
    try:
        resident = kept(loader_for(data, name, slots=slots).epoch(0))
        assert_same(resident, kept(loader_for(data, name, staged, slots=slots).epoch(0)))
    finally:
        staged.close()


def test_the_number_of_slots_changes_nothing(data):
    one, two, three = (kept(loader_for(data, slots=slots).epoch(0)) for slots in (1, 2, 3))
    assert_same(one, two)
    assert_same(one, three)


def test_the_last_batch_may_be_smaller_and_the_next_epoch_starts_afresh(data):
    loader = loader_for(data, batch=8)
    for epoch in range(2):
        sizes = [batch.images.shape for batch in loader.epoch(epoch)]
        assert sizes == [(8, 3, 64, 64)] * 3 + [(6, 3, 64, 64)]
    first, second = (kept(loader.epoch(epoch))[0][0] for epoch in (0, 1))
    assert not torch.equal(first, second), "another epoch draws anew"


def test_the_size_of_batches_changes_no_image(data):
    single, many = (kept(loader_for(data, batch=batch).epoch(0)) for batch in (1, 7))
    assert torch.equal(torch.cat([images for images, *_ in single]), torch.cat([images for images, *_ in many]))


def test_images_come_in_the_format_asked_for(data):
    levels = kept(loader_for(data, input_format=LEVELS).epoch(0))[0][0]
    batch = next(iter(loader_for(data).epoch(0)))
    assert batch.images.dtype == torch.float32
    assert batch.images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(batch.images, levels.float() * (1 / 255))
    half = InputFormat(dtype=torch.bfloat16)
    as_half = kept(loader_for(data, input_format=half).epoch(0))[0][0]
    assert torch.equal(as_half, (levels.float() * (1 / 255)).bfloat16())
    blue_first = InputFormat(dtype=torch.uint8, gain=1, rgb=False)
    assert torch.equal(kept(loader_for(data, input_format=blue_first).epoch(0))[0][0], levels.flip(1))


class Broken:
    """An image source whose tenth image is gone."""

    def __init__(self, images):
        self.sizes, self._images = images.sizes, images

    def image(self, index):
        if index == 9:
            raise OSError("9.png is gone")
        return self._images.image(index)


def test_an_error_in_reading_an_image_surfaces_and_leaves_no_thread(data):
    before = threading.active_count()
    staged = StagedPixels(Broken(data[1]), CPU, threads=2)
    with pytest.raises(OSError, match="is gone"):
        list(loader_for(data, pixels=staged).epoch(0))
    staged.close()
    assert threading.active_count() == before


def test_an_error_in_planning_surfaces(data):
    index, images = data
    too_many = EpochOrder(31, seed=3, shuffle=False, batch_size=4)  # the last image is not in the data set
    loader = DeviceLoader(planner_for(RECIPES["tiny"], index, images), ResidentPixels(images), too_many, "cpu")
    with pytest.raises(IndexError):
        list(loader.epoch(0))


def test_an_epoch_may_start_in_the_middle(data):
    whole = kept(loader_for(data).epoch(1))
    assert_same(kept(loader_for(data).epoch(1, start_batch=5)), whole[5:])


def test_the_last_epochs_have_no_mosaics(data):
    index, images = data
    closing = loader_for(data, input_format=LEVELS, close_mosaic_from=2)
    for epoch, recipe in ((1, RECIPES["tiny"]), (2, RECIPES["letterbox"])):
        batch = next(order_of(4).batches(epoch))
        plan = planner_for(recipe, index, images, seed=5).plan(batch.images, batch.positions, epoch).plan
        assert torch.equal(kept(closing.epoch(epoch))[0][0], render_torch.render(plan, images))


def test_epochs_may_be_weaker(data):
    index, images = data
    fading = loader_for(data, input_format=LEVELS, strengths=(1.0, 0.5))
    for epoch, recipe in enumerate((RECIPES["tiny"], RECIPES["tiny"].weakened(0.5))):
        batch = next(order_of(4).batches(epoch))
        plan = planner_for(recipe, index, images, seed=5).plan(batch.images, batch.positions, epoch).plan
        assert torch.equal(kept(fading.epoch(epoch))[0][0], render_torch.render(plan, images))


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_closing_early_leaves_no_thread(data, taken):
    before = threading.active_count()
    staged = StagedPixels(data[1], CPU, threads=2)
    epoch = loader_for(data, pixels=staged).epoch(0)
    for _ in range(taken):
        next(epoch)
    epoch.close()
    staged.close()
    assert threading.active_count() == before


def test_a_batch_stays_as_it_is_until_the_next_is_asked_for(data):
    for slots in (1, 2):
        loader = loader_for(data, slots=slots)
        expected = kept(loader.epoch(0))
        for batch, (images, *_) in zip(loader.epoch(0), expected, strict=True):
            assert torch.equal(batch.images, images)


def test_the_buffers_are_the_same_in_every_epoch(data):
    """So that a captured graph can still read them."""
    loader = loader_for(data, slots=2, batch=5)
    places = [{batch.images.data_ptr() for batch in loader.epoch(epoch)} for epoch in range(2)]
    assert places[0] == places[1]
    assert len(places[0]) == 2


@pytest.mark.parametrize("slots", [1, 2])
def test_rectangular_batches(data, slots):
    """Each batch in its shape, without mosaics, though the recipe has them; shuffled batches keep theirs."""
    index, images = data
    planner = planner_for(RECIPES["tiny"], index, images, seed=5)
    by_shape = rect_order(index.sizes)
    shapes = rect_shapes(images.sizes[by_shape], 4, planner.width, 32)
    order = EpochOrder(by_shape, seed=3, shuffle=False, shuffle_batches=True, batch_size=4)
    loader = DeviceLoader(planner, ResidentPixels(images), order, "cpu", LEVELS, slots=slots, shapes=shapes)
    made, expected = kept(loader.epoch(1)), list(order.batches(1))
    assert len({pixels.shape for pixels, *_ in made}) > 1
    for (pixels, boxes, _, valid, sources), batch in zip(made, expected, strict=True):
        height, width = shapes[batch.block]
        planned = planner.changed(height, width, mosaic=False).plan(batch.images, batch.positions, 1)
        assert pixels.shape[2:] == (height, width) and np.array_equal(sources, batch.images)
        assert pixels.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(pixels, render_torch.render(planned.plan, images))
        assert torch.equal(boxes[valid], torch.from_numpy(planned.rows[:, 2:]))
