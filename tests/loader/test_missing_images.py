"""An image file that disappears while a run uses it."""

import cv2
import numpy as np
import pytest

from tests.loader.small_set import RECIPE, WAYS, made_up_index, packed, random_sizes
from tests.store.made_up import announcing_png
from yolofast.augment.planner import Planner
from yolofast.augment.recipe import Recipe
from yolofast.errors import UserError
from yolofast.loader.batch_maker import BatchMaker
from yolofast.loader.order import EpochOrder
from yolofast.loader.workers import WorkerLoader
from yolofast.store.images import FileImages

IMAGES = 24


@pytest.fixture
def index(tmp_path):
    sizes = random_sizes(IMAGES)
    files = []
    for image, (width, height) in enumerate(sizes):
        file = tmp_path / f"{image}.png"
        cv2.imwrite(str(file), np.random.default_rng(image).integers(0, 256, (height, width, 3), dtype=np.uint8))
        files.append(str(file).encode())
    return made_up_index(sizes, files=files)


def loader(index, recipe=RECIPE, skip_bad=False, **options):
    images = FileImages(index, 64, 64, augmented=True)
    maker = BatchMaker(Planner(index, images.sizes, recipe, 64, 64), images, skip_bad=skip_bad)
    return WorkerLoader(maker, EpochOrder(IMAGES, seed=0, shuffle=False, batch_size=8), **options)


EVERY_WAY = pytest.mark.parametrize("options", WAYS)


@EVERY_WAY
def test_the_file_is_named(index, options):
    with loader(index, **options) as batches:
        list(batches.epoch(0))
        index.path(7).unlink()
        with pytest.raises(UserError) as caught:
            list(batches.epoch(1))
    assert str(index.path(7)) in str(caught.value)
    assert "cannot be read" in str(caught.value)


@EVERY_WAY
def test_it_is_skipped_with_one_warning_and_without_its_boxes(index, options):
    said = []
    with loader(index, Recipe(), skip_bad=True, say=said.append, **options) as batches:
        before = [(b.images.clone(), b.targets.valid.sum(1)) for b in batches.epoch(0)]
        index.path(7).unlink()
        after = [(b.images.clone(), b.targets.valid.sum(1)) for b in batches.epoch(1)]
        list(batches.epoch(2))
    assert len(said) == 1 and str(index.path(7)) in said[0]
    assert (after[0][0][7] == 114).all() and after[0][1].tolist() == [3] * 7 + [0]
    assert np.array_equal(after[0][0][:7], before[0][0][:7])
    assert np.array_equal(after[1][0], before[1][0]) and np.array_equal(after[1][1], before[1][1])


def test_an_image_too_large_to_decode_is_as_good_as_missing(index):
    index.path(7).write_bytes(announcing_png(60_000, 60_000))
    with pytest.raises(UserError, match=r"7\.png: says it has 60000×60000 pixels"):
        list(loader(index).epoch(0))
    said = []
    first = next(iter(loader(index, Recipe(), skip_bad=True, say=said.append).epoch(0)))
    assert len(said) == 1 and str(index.path(7)) in said[0]
    assert (first.images[7] == 114).all() and not first.targets.valid[7].any()


@pytest.mark.slow
def test_skipping_is_the_same_for_every_number_of_workers(index):
    index.path(7).unlink()
    index.path(13).unlink()
    ways = []
    for options in ({}, {"workers": 1}, {"workers": 3, "fast": True}):
        with loader(index, skip_bad=True, say=lambda text: None, **options) as batches:
            ways.append([(b.images.clone(), b.targets.boxes.clone()) for e in range(2) for b in batches.epoch(e)])
    for first, *others in zip(*ways, strict=True):
        for other in others:
            assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_drive_that_is_gone_is_no_bad_image(index):
    for image in range(IMAGES):
        index.path(image).unlink()
    with pytest.raises(UserError, match=r"17 images of one batch cannot be read(?s:.)*drive"):
        list(loader(index, skip_bad=True).epoch(0))


def test_pixels_are_those_of_the_files(index):
    images = FileImages(index, 64, 64, augmented=True)
    batch = next(loader(index, Recipe()).epoch(0))
    width, height = images.sizes[0]
    left, top = round((64 - width) / 2 - 0.1), round((64 - height) / 2 - 0.1)
    shown = batch.images[0, :, top : top + height, left : left + width].numpy()
    assert np.array_equal(shown, images.image(0).transpose(2, 0, 1)[::-1])


@pytest.mark.slow
def test_a_store_needs_no_files(index):
    stored = FileImages(index, 64, 64, augmented=True).sizes
    for image in range(IMAGES):
        index.path(image).unlink()
    maker = BatchMaker(Planner(index, stored, RECIPE, 64, 64), packed(stored))
    with WorkerLoader(maker, EpochOrder(IMAGES, seed=0, shuffle=False, batch_size=8), workers=1) as batches:
        assert len(list(batches.epoch(0))) == 3
