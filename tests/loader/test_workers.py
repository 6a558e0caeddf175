"""Workers, their number, their speed and the transport change the time a batch takes, never what is in it."""

import time

import cv2
import numpy as np
import pytest
import torch

from tests.loader.small_set import RECIPE, made_up_index, made_up_loader, made_up_maker, packed
from yolofast.augment.planner import Planner
from yolofast.augment.recipe import Recipe
from yolofast.augment.render_cv2 import render
from yolofast.errors import UserError
from yolofast.image_index import fitted_size
from yolofast.loader import pinning
from yolofast.loader.batch_maker import BatchMaker
from yolofast.loader.order import EpochOrder, rect_order, rect_shapes
from yolofast.loader.workers import WorkerLoader
from yolofast.structures import Targets

pytestmark = pytest.mark.slow


def copied(batches):
    """Of a ring's batches only the last two are valid."""
    return [
        (b.images.clone(), b.targets.boxes.clone(), b.targets.labels.clone(), b.targets.valid.clone(), b.sources.copy())
        for b in batches
    ]


def same(first, second):
    return len(first) == len(second) and all(
        np.array_equal(np.asarray(x), np.asarray(y))
        for a, b in zip(first, second, strict=True)
        for x, y in zip(a, b, strict=True)
    )


@pytest.fixture(scope="module")
def in_process():
    loader = made_up_loader()
    return [copied(loader.epoch(epoch)) for epoch in range(3)]


def test_batches_are_the_planner_s_and_the_renderer_s(in_process):
    maker = made_up_maker()
    batch = list(EpochOrder(20, seed=5, shuffle=True, batch_size=8).batches(1))[2]
    planned = maker.planner.plan(batch.images, batch.positions, epoch=1)
    pixels = np.zeros((4, 3, 64, 64), np.uint8)
    render(planned.plan, maker.images, pixels)
    targets = Targets.from_rows(torch.from_numpy(planned.rows), 4)
    expected = (pixels, targets.boxes, targets.labels, targets.valid, batch.images)
    assert same([expected], in_process[1][2:])
    assert targets.valid.any()


@pytest.mark.parametrize("options", [{}, {"persistent": True}, {"worker_tensor": True}, {"fast": True}])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_way_gives_the_same_batches(in_process, workers, options):
    with made_up_loader(workers=workers, **options) as loader:
        for epoch in range(3):
            assert same(copied(loader.epoch(epoch)), in_process[epoch])


def test_ranks_make_parts_of_the_same_batches(in_process):
    for rank in range(2):
        order = EpochOrder(20, seed=5, shuffle=True, batch_size=8, rank=rank, world=2)
        with WorkerLoader(made_up_maker(), order, workers=1, fast=True) as loader:
            for (images, *_), (whole, *_) in zip(copied(loader.epoch(1)), in_process[1], strict=True):
                half = len(whole) // 2
                assert torch.equal(images, whole[rank * half : (rank + 1) * half])


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"workers": 2, "fast": True}])
def test_an_epoch_resumes_exactly(in_process, options):
    with made_up_loader(**options) as loader:
        assert same(copied(loader.epoch(2, start_batch=1)), in_process[2][1:])


@pytest.mark.parametrize("options", [{}, {"fast": True}])
def test_an_abandoned_epoch_does_not_disturb_the_next(in_process, options):
    with made_up_loader(workers=2, **options) as loader:
        abandoned = loader.epoch(0)
        next(abandoned)
        assert same(copied(loader.epoch(1)), in_process[1])
        assert next(abandoned, None) is None, "an epoch ends where the next begins"


class Uneven:
    """Images that some workers wait for longer than others."""

    def __init__(self, images):
        self._images, self.sizes = images, images.sizes

    def image(self, index):
        time.sleep(0.01 * (index % 4 == 0))
        return self._images.image(index)


def test_slow_workers_do_not_change_the_order(in_process):
    maker = made_up_maker()
    with made_up_loader(maker=BatchMaker(maker.planner, Uneven(maker.images)), workers=3, fast=True) as loader:
        assert same(copied(loader.epoch(0)), in_process[0])


def test_a_ring_s_batch_is_valid_until_the_next_but_one_is_asked_for():
    with made_up_loader(images=80, workers=2, fast=True) as loader:
        expected = [images for images, *_ in copied(loader.epoch(0))]
        before = None
        for number, batch in enumerate(loader.epoch(0)):
            time.sleep(0.02)  # the workers have time to spoil what they may
            assert torch.equal(batch.images, expected[number])
            if before is not None:
                assert torch.equal(before, expected[number - 1])
            before = batch.images


@pytest.mark.parametrize("prefetch", [1, 2])
def test_a_ring_s_batch_outlives_an_abandoned_epoch_as_long_as_any_other(prefetch):
    with made_up_loader(images=160, workers=2, fast=True, prefetch=prefetch) as loader:
        for epoch in range(5):
            batches = loader.epoch(epoch)
            for _ in range(3):
                last = next(batches)
            kept = last.images.clone()
            next(loader.epoch(epoch + 1))
            time.sleep(0.05)
            assert torch.equal(last.images, kept)


def test_a_ring_s_batches_are_views_of_one_block():
    with made_up_loader(images=80, workers=1, fast=True) as loader:
        places = {batch.images.data_ptr() for epoch in range(3) for batch in loader.epoch(epoch)}
    assert len(places) == 4, "two under way and two held"


def test_more_boxes_than_a_ring_has_room_for_take_another_way():
    maker = made_up_maker(images=4, size=32, recipe=Recipe(), boxes_per_image=600)
    ways = []
    for options in ({}, {"workers": 1}, {"workers": 1, "fast": True}):
        with made_up_loader(images=4, batch_size=2, maker=maker, **options) as loader:
            ways.append(copied(loader.epoch(0)))
    assert ways[0][0][3].sum() == 1200
    assert same(ways[0], ways[1]) and same(ways[0], ways[2])


def test_threads_of_opencv_before_the_fork_do_no_harm(in_process):
    threads = cv2.getNumThreads()
    cv2.setNumThreads(2)
    try:
        cv2.GaussianBlur(np.zeros((2000, 2000, 3), np.uint8), (9, 9), 2)
        torch.rand(1500, 1500) @ torch.rand(1500, 1500)
        with made_up_loader(workers=2) as loader:
            assert same(copied(loader.epoch(0)), in_process[0])
    finally:
        cv2.setNumThreads(threads)


def test_mosaics_end_at_the_named_epoch():
    calm = made_up_maker(recipe=RECIPE.without_mosaic())
    expected = copied(made_up_loader(maker=calm).epoch(4))
    with made_up_loader(workers=1, fast=True, close_mosaic_from=4) as loader:
        assert same(copied(loader.epoch(4)), expected)
        assert same(copied(loader.epoch(3)), copied(made_up_loader().epoch(3)))


def test_epochs_may_be_weaker():
    expected = copied(made_up_loader(maker=made_up_maker(recipe=RECIPE.weakened(0.25))).epoch(1))
    with made_up_loader(workers=1, strengths=(1.0, 0.25)) as loader:
        assert same(copied(loader.epoch(1)), expected)
        assert same(copied(loader.epoch(0)), copied(made_up_loader().epoch(0)))
    assert not same(expected, copied(made_up_loader().epoch(1)))


def test_image_weights_may_change_between_epochs():
    weights = np.zeros(20)
    weights[7] = 1
    with made_up_loader(workers=2, fast=True) as loader:
        assert len({int(i) for b in loader.epoch(0) for i in b.sources}) == 20
        loader.order = EpochOrder(20, seed=5, shuffle=True, batch_size=8, weights=weights)
        assert {int(i) for b in loader.epoch(1) for i in b.sources} == {7}


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"workers": 2, "fast": True}])
def test_rectangular_batches(options):
    index = made_up_index(np.array([[200, 100], [100, 100], [100, 200], [180, 100]] * 3))
    stored = fitted_size(index.sizes, 64, 64)
    images = packed(stored)
    order = rect_order(index.sizes)
    shapes = rect_shapes(index.sizes[order], 3, 64, 32, pad=0)
    maker = BatchMaker(Planner(index, stored, Recipe(mosaic=1.0), 64, 64), images)
    epoch_order = EpochOrder(order, seed=0, shuffle=False, batch_size=3)
    with WorkerLoader(maker, epoch_order, shapes=shapes, **options) as loader:
        batches = copied(loader.epoch(0))
    assert [tuple(b[0].shape[2:]) for b in batches] == [(32, 64), (64, 64), (64, 64), (64, 32)]
    pixels, sources = batches[0][0], batches[0][4]
    assert sorted(sources) == [0, 4, 8], "the widest, 64 × 32 as stored: not padded at all"
    for image, source in zip(pixels, sources, strict=True):
        assert np.array_equal(image.numpy(), images.image(int(source)).transpose(2, 0, 1)[::-1])


def test_yolox_takes_blue_first():
    maker = made_up_maker(recipe=Recipe())
    blue_first = BatchMaker(maker.planner, maker.images, rgb=False)
    red, blue = (next(made_up_loader(maker=m).epoch(0)).images for m in (maker, blue_first))
    assert torch.equal(red, blue.flip(1)) and not torch.equal(red, blue)


class Broken:
    def __init__(self, images, error):
        self._images, self.sizes, self._error = images, images.sizes, error

    def image(self, index):
        if index == 7:
            raise self._error
        return self._images.image(index)


class UnpicklableError(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")
        self.function = lambda: None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UserError("is damaged", where="a.jpg", fix="remove it"), UserError),
        (ZeroDivisionError("seven"), ZeroDivisionError),
        (UnpicklableError("seven", "eight"), RuntimeError),
    ],
)
@pytest.mark.parametrize("options", [{}, {"fast": True}])
def test_an_exception_in_a_worker_is_raised_here(error, kind, options):
    maker = made_up_maker(recipe=Recipe())
    with made_up_loader(maker=BatchMaker(maker.planner, Broken(maker.images, error)), workers=2, **options) as loader:
        with pytest.raises(kind) as caught:
            list(loader.epoch(0))
        assert str(error) in str(caught.value)
        if kind is UserError:
            assert (caught.value.where, caught.value.fix) == ("a.jpg", "remove it")
        else:
            assert any("in image" in note for note in caught.value.__notes__), "the worker's traceback comes along"


def test_exceptions_come_in_order_whatever_the_workers_do():
    """Batches before the bad one are delivered."""
    maker = made_up_maker(recipe=Recipe())
    broken = BatchMaker(maker.planner, Broken(maker.images, ValueError("seven")))
    order = EpochOrder(20, seed=0, shuffle=False, batch_size=2)
    with WorkerLoader(broken, order, workers=3, fast=True) as loader:
        batches = loader.epoch(0)
        assert [list(next(batches).sources) for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
        with pytest.raises(ValueError, match="seven"):
            next(batches)


@pytest.mark.parametrize(("option", "value"), [("workers", -1), ("prefetch", 0)])
def test_impossible_counts(option, value):
    with pytest.raises(UserError, match=f"{option} is {value}"):
        made_up_loader(**({"workers": 1} | {option: value}))


def test_batches_prepared_in_the_background_keep_their_order_and_exceptions():
    def numbers():
        yield from range(5)
        raise ValueError("after five")

    prepared = pinning.in_background(numbers(), lambda n: n * 10)
    assert [next(prepared) for _ in range(5)] == [0, 10, 20, 30, 40]
    with pytest.raises(ValueError, match="after five"):
        next(prepared)
