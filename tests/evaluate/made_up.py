"""Splits, detections and predictions made up for the tests."""

import json
from pathlib import Path

import numpy as np

from yolofast.evaluate.matching import GroundTruth
from yolofast.image_index import ImageIndex, starts_of
from yolofast.structures import Detections

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = ("small", "crowded", "one_class", "many")
golden = np.load(GOLDEN / "v7_evaluate.npz")
golden_means = json.loads((GOLDEN / "v7_evaluate.json").read_text())


def truth(*rows):
    """Rows: label, x1, y1, x2, y2."""
    table = np.array(rows, np.float64).reshape(-1, 5)
    return GroundTruth(table[:, 1:].astype(np.float32), table[:, 0].astype(np.int64))


def found(*rows):
    """Rows: score, label, x1, y1, x2, y2."""
    table = np.array(rows, np.float64).reshape(-1, 6)
    return Detections(table[:, 2:].astype(np.float32), table[:, 0].astype(np.float32), table[:, 1].astype(np.int64))


def index(boxes, sizes, nc=3, crowd=(), image_ids=None, category_ids=None, annotations=None):
    """`boxes`: per image rows label, cx, cy, w, h as shares; `crowd`: places among all boxes."""
    flat = np.array([row for rows in boxes for row in rows], np.float64).reshape(-1, 5)
    n = len(boxes)
    return ImageIndex(
        names=tuple(f"class {label}" for label in range(nc)),
        files=np.array([f"/images/{i}.jpg".encode() for i in range(n)], dtype="S20"),
        sizes=np.array(sizes, np.int64).reshape(n, 2),
        starts=starts_of([len(rows) for rows in boxes]),
        labels=flat[:, 0].astype(np.int64),
        boxes=flat[:, 1:].astype(np.float32),
        points=np.zeros((0, 2), np.float32),
        point_starts=np.zeros(len(flat) + 1, np.int64),
        crowd=np.isin(np.arange(len(flat)), crowd),
        image_ids=np.arange(n) if image_ids is None else np.array(image_ids, np.int64),
        category_ids=np.arange(nc) if category_ids is None else np.array(category_ids, np.int64),
        annotations=annotations,
    )


def random_boxes(rng, images, nc):
    """Of all sizes, some images without any."""
    return [
        [
            [rng.integers(nc), *rng.uniform(0.3, 0.7, 2), *np.exp(rng.uniform(-3.5, -0.6, 2))]
            for _ in range(rng.integers(0, 9))
        ]
        for _ in range(images)
    ]


def perturbed(rng, boxes, labels, size, nc):
    """Detections near these true boxes (x1, y1, x2, y2), of sometimes other classes, and some of nothing."""
    near = np.repeat(boxes, 3, axis=0) + rng.normal(0, 0.02, (3 * len(boxes), 4)) * np.tile(size, 2)
    nowhere = np.sort(rng.uniform(0, 1, (5, 2, 2)), axis=1).reshape(5, 4) * np.tile(size, 2)
    corners = np.concatenate((near, nowhere))
    corners[:, 2:] = np.maximum(corners[:, 2:], corners[:, :2] + 1)
    guess = np.concatenate((np.repeat(labels, 3), rng.integers(0, nc, 5)))
    guess = np.where(rng.random(len(guess)) < 0.2, rng.integers(0, nc, len(guess)), guess)
    scores = np.sort(rng.random(len(guess)).round(2))[::-1]  # with equal ones
    return Detections(corners.astype(np.float32), scores.astype(np.float32), guess.astype(np.int64))
