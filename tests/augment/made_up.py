"""Small data sets in memory: images, boxes and polygons made for one purpose each, and recipes to try on them."""

import cv2
import numpy as np
import torch

from yolofast.augment.planner import Planner
from yolofast.augment.recipe import Recipe, change
from yolofast.image_index import ImageIndex, starts_of
from yolofast.pixels import PackedImages

TINY = Recipe.from_hyp(
    {
        "mosaic": 1.0, "mixup": 0.05, "paste_in": 0.05, "translate": 0.1, "scale": 0.5, "hsv_h": 0.015, "hsv_s": 0.7,
        "hsv_v": 0.4, "fliplr": 0.5,
    }
)  # fmt: skip
"""The published values for YOLOv7-tiny."""

PLAIN = change(TINY, {"mixup": 0.0, "paste_in": 0.0, "hsv": (0.0, 0.0, 0.0), "fliplr": 0.0})
"""Mosaics and the transform, nothing else."""

RECIPES = {
    "tiny": TINY,
    "nine": change(TINY, {"nine": 1.0}),
    "mixup": change(TINY, {"mixup": 1.0}),
    "turned": change(TINY, {"degrees": 30.0, "shear": 10.0, "flipud": 0.5}),
    "perspective": change(TINY, {"degrees": 10.0, "shear": 5.0, "perspective": 0.001}),
    "paste": change(TINY, {"paste_in": 1.0, "flipud": 0.5}),
    "copy": change(TINY, {"copy_paste": 1.0, "nine": 0.5, "mixup": 0.5}),
    "letterbox": TINY.without_mosaic(),
    "nothing": Recipe(),
    "yolox": Recipe.yolox(),
    "yolox small": Recipe.yolox(mixup=0.0, scale=(0.5, 1.5)),
    "yolox alone": Recipe.yolox().without_mosaic(),
}

OUTLINE = np.array([[0.0, 0.3], [0.4, 0.0], [1.0, 0.2], [0.8, 1.0], [0.3, 0.7], [0.1, 0.9]])
"""A polygon that is not convex and touches all sides of its box."""


def make_index(sizes, boxes, polygons=None, crowd=None, labels=None, classes=None):
    """`boxes[i]` are the rows cx, cy, w, h of image i; `polygons` one array of corners per box, or None."""
    count = sum(len(own) for own in boxes)
    polygons = polygons or [None] * count
    points = [np.zeros((0, 2)) if p is None else np.asarray(p) for p in polygons]
    labels = np.arange(count) if labels is None else np.asarray(labels, np.int64)
    classes = classes or max(int(labels.max(initial=0)) + 1, 1)
    return ImageIndex(
        names=tuple(f"class {i}" for i in range(classes)),
        files=np.array([b"%d.png" % i for i in range(len(boxes))]),
        sizes=np.asarray(sizes, np.int64).reshape(-1, 2),
        starts=starts_of([len(own) for own in boxes]),
        labels=labels,
        boxes=np.concatenate([np.zeros((0, 4)), *[np.reshape(own, (-1, 4)) for own in boxes]]).astype(np.float32),
        points=np.concatenate([np.zeros((0, 2)), *points]).astype(np.float32),
        point_starts=starts_of([len(p) for p in points]),
        crowd=np.zeros(count, np.bool_) if crowd is None else np.asarray(crowd, np.bool_),
        image_ids=np.arange(len(boxes)),
        category_ids=np.arange(classes),
    )


def pack(images, aligned=1):
    """In one run of bytes, each image at a multiple of `aligned`."""
    room = [-(-image.size // aligned) * aligned for image in images]
    starts = starts_of(room)
    data = np.zeros(int(starts[-1]), np.uint8)
    for start, image in zip(starts, images, strict=False):
        data[start : start + image.size] = image.reshape(-1)
    sizes = np.array([image.shape[1::-1] for image in images], np.int64)
    return PackedImages(torch.from_numpy(data), starts[:-1], sizes)


def picture(width, height, seed):
    """Slow changes of colour with some noise: neighbours differ by tens of levels, as in photographs."""
    generator = np.random.default_rng(seed)
    coarse = generator.integers(0, 256, (max(height // 8, 2), max(width // 8, 2), 3), np.uint8)
    smooth = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.int64)
    return np.clip(smooth + generator.integers(-8, 9, smooth.shape), 0, 255).astype(np.uint8)


def fitted_sizes(count, width, height, seed):
    """Sizes of images that just fit: half of them as wide as the output, half as high."""
    generator = np.random.default_rng(seed)
    shares = generator.uniform(0.5, 1.0, count)
    wide = np.arange(count) % 2 == 0
    return np.stack(
        (np.where(wide, width, (width * shares).astype(int)), np.where(wide, (height * shares).astype(int), height)), 1
    )


def random_boxes(generator, count):
    low, sides = generator.uniform(0, 0.7, (count, 2)), generator.uniform(0.02, 0.6, (count, 2))
    high = np.minimum(low + sides, 1.0)
    return np.concatenate(((low + high) / 2, high - low), axis=1)


def outline_in(box):
    return (box[:2] - box[2:] / 2) + OUTLINE * box[2:]


def random_set(seed=0, count=10, width=64, height=64, polygons=True, empty=2, crowd=0.0):
    """Pictures with up to five boxes each, the first `empty` images without any; every box has a class of its own."""
    generator = np.random.default_rng(seed)
    sizes = fitted_sizes(count, width, height, seed)
    boxes = [random_boxes(generator, 0 if i < empty else int(generator.integers(1, 6))) for i in range(count)]
    flat = np.concatenate(boxes)
    outlines = [outline_in(box) for box in flat] if polygons else None
    index = make_index(sizes, boxes, outlines, generator.random(len(flat)) < crowd)
    return index, pack([picture(w, h, seed * 100 + i) for i, (w, h) in enumerate(sizes)])


def planner_for(recipe, index, images, width=64, height=64, **more):
    return Planner(index, images.sizes, recipe, width, height, **more)


def plan_batch(recipe, index, images, batch=6, width=64, height=64, epoch=0, **more):
    """The first images of the data set, at positions of their number."""
    which = np.arange(batch) % len(index)
    return planner_for(recipe, index, images, width, height, **more).plan(which, np.arange(batch), epoch)
