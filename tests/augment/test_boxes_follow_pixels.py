"""Each object painted in a colour of its own on grey: where the colour is in the output, there its box has to be."""

from itertools import product

import numpy as np
import pytest

from tests.augment.made_up import PLAIN, fitted_sizes, make_index, pack, plan_batch
from yolofast.augment import render_cv2, render_torch
from yolofast.augment.plan import FILL
from yolofast.augment.recipe import Recipe, change

# All directions away from grey, so that a mixture with grey still tells the colour.
COLOURS = FILL + 100 * np.array([way for way in product((-1, 0, 1), repeat=3) if any(way)])
SIZE, BATCH, SEEDS = 96, 8, 4
YOLOX = Recipe.yolox(mixup=0.0, hsv=(0.0, 0.0, 0.0))
STILL = {"degrees": 0.0, "shear": 0.0, "fliplr": 0.0}
UPRIGHT = {
    "four": change(PLAIN, {"nine": 0.0}),
    "nine": change(PLAIN, {"nine": 1.0}),
    "letterbox": PLAIN.without_mosaic(),
    "flipped": change(PLAIN, {"flipud": 0.5, "fliplr": 0.5}),
    "yolox": change(YOLOX, STILL | {"scale": (0.5, 1.5)}),
    "yolox alone": change(YOLOX.without_mosaic(), {"fliplr": 0.5}),
}
TURNED = {
    "four": change(PLAIN, {"nine": 0.0, "degrees": 30.0, "shear": 10.0}),
    "nine": change(PLAIN, {"nine": 1.0, "degrees": 30.0}),
    "letterbox": change(PLAIN.without_mosaic(), {"degrees": 45.0, "shear": 10.0}),
    "perspective": change(PLAIN, {"nine": 0.0, "degrees": 10.0, "perspective": 0.001}),
    "flipped": change(PLAIN, {"nine": 0.0, "degrees": 30.0, "flipud": 0.5, "fliplr": 0.5}),
    "yolox": change(YOLOX, {"degrees": 20.0, "shear": 5.0, "scale": (0.5, 1.5)}),
}


def painted_set(seed, square, polygons):
    """One image per colour with one rectangle, away from the image's edges; its class is its colour."""
    generator = np.random.default_rng(seed)
    count = len(COLOURS)
    sizes = np.full((count, 2), SIZE) if square else fitted_sizes(count, SIZE, SIZE, seed)
    images, boxes = [], []
    for colour, (width, height) in zip(COLOURS, sizes, strict=True):
        w, h = generator.integers(12, [width - 12, height - 12])
        x, y = generator.integers(4, [width - w - 3, height - h - 3])
        image = np.full((height, width, 3), FILL, np.uint8)
        image[y : y + h, x : x + w] = colour
        images.append(image)
        boxes.append([[(x + w / 2) / width, (y + h / 2) / height, w / width, h / height]])
    outlines = None
    if polygons:
        outlines = [
            np.array(
                [[cx - w / 2, cy - h / 2], [cx + w / 2, cy - h / 2], [cx + w / 2, cy + h / 2], [cx - w / 2, cy + h / 2]]
            )
            for ((cx, cy, w, h),) in boxes
        ]
    return make_index(sizes, boxes, outlines), pack(images)


def painted_extent(image, colour):
    """x1, y1, x2, y2 around the pixels at least half covered by the colour; None if there are none."""
    way = (colour - FILL).astype(float)
    away = image.astype(float) - FILL
    share = away @ way / (way @ way)
    rest = np.abs(away - share[..., None] * way).max(axis=-1)
    y, x = np.nonzero((share > 0.5) & (rest < 15))
    return None if not len(x) else np.array([x.min(), y.min(), x.max() + 1, y.max() + 1], float)


def extents(recipe, seed, polygons, render="cv2"):
    """(row's corners, painted extent, its whole area) of each object that is on its image once.

    Corners and extent may be None.
    """
    index, images = painted_set(seed, False, polygons)
    planned = plan_batch(recipe, index, images, BATCH, SIZE, SIZE, epoch=seed)
    if render == "cv2":
        out = np.empty((BATCH, 3, SIZE, SIZE), np.uint8)
        render_cv2.render(planned.plan, images, out, rgb=False)
    else:
        out = render_torch.render(planned.plan, images, rgb=False).numpy()
    for b in range(BATCH):
        sources = planned.plan.source_BVT[b]
        for label in np.unique(sources[sources >= 0]):
            if (sources == label).sum() > 1:
                continue
            row = planned.rows[(planned.rows[:, 0] == b) & (planned.rows[:, 1] == label), 2:].astype(float)
            corners = (
                None if not len(row) else np.concatenate((row[0, :2] - row[0, 2:] / 2, row[0, :2] + row[0, 2:] / 2))
            )
            extent = painted_extent(out[b].transpose(1, 2, 0), COLOURS[label])
            whole = np.prod(index.boxes[label, 2:] * images.sizes[label]) * planned.plan.scale_BV[b, 0] ** 2
            yield None if corners is None else corners * SIZE, extent, whole


@pytest.mark.slow
@pytest.mark.parametrize("render", ["cv2", "torch"])
@pytest.mark.parametrize("polygons", [False, True])
@pytest.mark.parametrize("name", UPRIGHT)
def test_upright(name, polygons, render):
    compared = 0
    for seed in range(SEEDS if render == "cv2" else 1):
        for corners, extent, whole in extents(UPRIGHT[name], seed, polygons, render):
            if corners is None:
                sides = np.zeros(2) if extent is None else extent[2:] - extent[:2]
                # As published, a polygon of which only one edge is in sight has a box without area.
                one_edge = polygons and sides.max() == SIZE
                assert one_edge or sides.min() < 4 or sides.prod() < 0.12 * whole, "much of an object without a box"
                continue
            assert extent is not None
            assert np.abs(corners - extent).max() < 1.5
            compared += 1
    assert compared >= BATCH


@pytest.mark.slow
@pytest.mark.parametrize("polygons", [False, True])
@pytest.mark.parametrize("name", TURNED)
def test_turned(name, polygons):
    """Objects wholly in sight are as large as painted; of those cut by an edge, a turned box may be too large."""
    compared = 0
    for seed in range(SEEDS):
        for corners, extent, _ in extents(TURNED[name], seed, polygons):
            if corners is None or extent is None:
                continue
            if polygons and (extent[2:] - extent[:2]).max() == SIZE:
                continue  # as published: where a polygon has no edge in sight, its box does not reach
            assert (corners[:2] < extent[:2] + 1.5).all() and (corners[2:] > extent[2:] - 1.5).all()
            if extent[:2].min() > 1 and extent[2:].max() < SIZE - 1:
                assert np.abs(corners - extent).max() < 2.0
                compared += 1
    assert compared >= 4


def test_yolox_partner():
    """The image blended in is half as strong, so its colour is sought in the second view alone."""
    index, images = painted_set(0, False, False)
    planned = plan_batch(Recipe.yolox(hsv=(0.0, 0.0, 0.0), fliplr=0.0), index, images, 24, SIZE, SIZE)
    plan = planned.plan
    compared = 0
    for b in np.flatnonzero(plan.blend_B < 1):
        label = plan.source_BVT[b, 1, 0]
        if label in plan.source_BVT[b, 0]:
            continue
        view = render_cv2._view(plan, b, 1, images)
        extent = painted_extent(view, COLOURS[label])
        row = planned.rows[(planned.rows[:, 0] == b) & (planned.rows[:, 1] == label), 2:].astype(float)
        if not len(row):
            assert extent is None or (extent[2:] - extent[:2]).min() < 2
            continue
        corners = np.concatenate((row[0, :2] - row[0, 2:] / 2, row[0, :2] + row[0, 2:] / 2)) * SIZE
        assert np.abs(corners - extent).max() < 0.75, "half a pixel and rounding: edges stay edges, mirrored or not"
        compared += 1
    assert compared > 10
