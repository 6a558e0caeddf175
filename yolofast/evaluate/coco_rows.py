"""Detections as rows of a COCO results file: image, class, box as x, y, w, h, score.

Boxes are rounded to 3 and scores to 5 decimals, as published. Evaluation uses the rounded numbers too, so that whoever
evaluates the saved file finds the same AP.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from yolofast.image_index import ImageIndex, Ints
from yolofast.structures import Detections

Floats = npt.NDArray[np.float64]

_NOT_IN_FILE = -1
"""The category id of a class that the annotation file does not have."""


@dataclass(frozen=True)
class CocoRows:
    """R detections of a split."""

    images: Ints
    """[R] places in the split."""
    labels: Ints
    """[R]"""
    boxes: Floats
    """[R, 4] x, y, w, h."""
    scores: Floats
    """[R]"""


def coco_rows(found: Iterable[tuple[int, Detections]], scale: Floats) -> CocoRows:
    """From (place in the split, detections in original pixels); `scale` [N, 2] as `CocoTruth` gives it."""
    pairs = list(found)
    detections = [Detections.none(), *(one for _, one in pairs)]
    images = np.repeat(np.array([image for image, _ in pairs], np.int64), [len(one) for one in detections[1:]])
    corners = np.concatenate([one.boxes for one in detections]).astype(np.float64) * np.tile(scale[images], 2)
    boxes = np.concatenate((corners[:, :2], corners[:, 2:] - corners[:, :2]), axis=1)
    scores = np.concatenate([one.scores for one in detections]).astype(np.float64)
    labels = np.concatenate([one.labels for one in detections])
    return CocoRows(images, labels, boxes.round(3), scores.round(5))


def results_json(rows: CocoRows, index: ImageIndex) -> bytes:
    """The content of a results file, under the ids the annotation file uses; classes it does not have are left out."""
    category = index.category_ids[rows.labels]
    columns = (index.image_ids[rows.images], category, rows.boxes, rows.scores)
    entries: list[dict[str, Any]] = [
        {"image_id": image, "category_id": label, "bbox": box, "score": score}
        for image, label, box, score in zip(
            *(column[category != _NOT_IN_FILE].tolist() for column in columns), strict=True
        )
    ]
    return json.dumps(entries).encode()


def result_rows(detections: Detections, image: int | str, category_ids: Sequence[int]) -> list[dict[str, Any]]:
    """The entries of one image, for a results file without a split; `category_ids` by class."""
    rows = coco_rows([(0, detections)], np.ones((1, 2)))
    return [
        {"image_id": image, "category_id": category_ids[label], "bbox": box, "score": score}
        for label, box, score in zip(rows.labels.tolist(), rows.boxes.tolist(), rows.scores.tolist(), strict=True)
    ]
