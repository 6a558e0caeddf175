"""A small data set made up in memory, and loaders of it."""

import numpy as np
import pytest
import torch

from yolofast.augment.planner import Planner
from yolofast.augment.recipe import Recipe
from yolofast.image_index import ImageIndex, fitted_size, starts_of
from yolofast.loader.batch_maker import BatchMaker
from yolofast.loader.order import EpochOrder
from yolofast.loader.workers import WorkerLoader
from yolofast.pixels import PackedImages


def in_workers(**options):
    """A parameter of a test: options of a loader that starts processes."""
    return pytest.param(options, marks=pytest.mark.slow)


WAYS = ({}, in_workers(workers=2), in_workers(workers=2, fast=True))
RECIPE = Recipe(
    mosaic=0.7, mixup=0.3, degrees=5, translate=0.1, scale=(0.6, 1.4), hsv=(0.015, 0.7, 0.4), fliplr=0.5, flipud=0.2
)


def made_up_index(sizes, boxes_per_image=3, files=None, seed=0):
    random = np.random.default_rng(seed)
    images = len(sizes)
    counts = np.full(images, boxes_per_image)
    boxes = counts.sum()
    sides = random.uniform(0.2, 0.5, (boxes, 2))
    centres = random.uniform(0.3, 0.7, (boxes, 2))
    return ImageIndex(
        names=("a", "b", "c", "d"),
        files=np.array(files if files is not None else [f"/none/{i}.jpg".encode() for i in range(images)]),
        sizes=np.asarray(sizes),
        starts=starts_of(counts),
        labels=random.integers(0, 4, boxes),
        boxes=np.concatenate((centres, sides), axis=1).astype(np.float32),
        points=np.zeros((0, 2), np.float32),
        point_starts=np.zeros(boxes + 1, np.int64),
        crowd=np.zeros(boxes, np.bool_),
        image_ids=np.arange(images),
        category_ids=np.arange(4),
    )


def random_sizes(images, seed=0):
    return np.random.default_rng(seed).integers(40, 200, (images, 2))


def packed(sizes, seed=0):
    """Random pixels for images stored at these sizes."""
    count = sizes.prod(axis=1) * 3
    data = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, count.sum(), dtype=np.uint8))
    return PackedImages(data, starts_of(count)[:-1], sizes)


def made_up_maker(images=20, size=64, recipe=RECIPE, boxes_per_image=3, **options):
    index = made_up_index(random_sizes(images), boxes_per_image)
    stored = fitted_size(index.sizes, size, size)
    return BatchMaker(Planner(index, stored, recipe, size, size, seed=5), packed(stored), **options)


def made_up_loader(images=20, size=64, batch_size=8, maker=None, **options):
    order = EpochOrder(images, seed=5, shuffle=True, batch_size=batch_size, multiple=4 if maker and maker.quad else 1)
    return WorkerLoader(maker or made_up_maker(images, size), order, **options)
