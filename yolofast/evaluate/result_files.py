"""What evaluation writes: label files, COCO results files, the scores of each class, labels completed by detections.

In a results file boxes are rounded to 3 and scores to 5 decimals, as published. Evaluation uses the rounded numbers
too, so that evaluating the saved file gives the same AP.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from yolofast.evaluate.matching import GroundTruth, pair_up
from yolofast.evaluate.v7_metrics import V7Result
from yolofast.files.atomic_file import write_output
from yolofast.files.yaml_file import read_yaml
from yolofast.image_index import ImageIndex, Ints
from yolofast.resources import find_resource
from yolofast.structures import Detections

_UNUSED = frozenset({12, 26, 29, 30, 45, 66, 68, 69, 71, 83})
"""COCO numbers its 80 classes from 1 to 90 and omits these."""


def label_text(detections: Detections, width: int, height: int, *, scores: bool) -> str:
    """Class, centre and size as shares of the image, and the score; from pixels of an image of this size."""
    low, high = detections.boxes[:, :2], detections.boxes[:, 2:]
    size = np.array((width, height))
    columns = [detections.labels, *((low + high) / 2 / size).T, *((high - low) / size).T]
    columns += [detections.scores] if scores else []
    rows = zip(*columns, strict=True)
    return "".join(" ".join([str(int(label)), *(f"{value:.6f}" for value in values)]) + "\n" for label, *values in rows)


@dataclass(frozen=True, kw_only=True)
class ClassRow:
    id: int
    name: str
    boxes: int
    """How many there are to find."""
    precision: float
    recall: float
    f1: float
    ap50: float
    ap: float


def per_class_table(result: V7Result, names: Sequence[str]) -> list[ClassRow]:
    """One row per class that occurs in the ground truth."""
    columns = (result.classes, result.boxes, result.precision, result.recall, result.f1, result.ap[:, 0])
    return [
        ClassRow(id=label, name=names[label], boxes=boxes, precision=p, recall=r, f1=f1, ap50=ap50, ap=ap)
        for label, boxes, p, r, f1, ap50, ap in zip(
            *(column.tolist() for column in columns), result.ap.mean(axis=1).tolist(), strict=True
        )
    ]


def save_per_class_ap(path: str | Path, result: V7Result, names: Sequence[str]) -> Path:
    rows = per_class_table(result, names)
    per_class = {str(row.id): {"ap50": row.ap50, "ap": row.ap, "name": row.name} for row in rows}
    content = {"map50": result.map50, "map": result.map, "per_class": per_class}
    return write_output(path, json.dumps(content, indent=1, ensure_ascii=False).encode())


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
    joined = Detections.joined([one for _, one in pairs])
    images = np.repeat(np.array([image for image, _ in pairs], np.int64), [len(one) for _, one in pairs])
    corners = joined.boxes.astype(np.float64) * np.tile(scale[images], 2)
    boxes = np.concatenate((corners[:, :2], corners[:, 2:] - corners[:, :2]), axis=1)
    return CocoRows(images, joined.labels, boxes.round(3), joined.scores.astype(np.float64).round(5))


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


def with_labels(found: Detections, truth: GroundTruth, iou: float) -> Detections:
    """`--save-hybrid`: labels first, then what was found elsewhere, best first; both in pixels of the same image.

    Every label stays, with a score of 1. A detection that overlaps a label of its class by more than the threshold is
    the same object. Suppressing both together, as published, would also drop labels that overlap one another.
    """
    pairs = pair_up([found], [truth], same_class=True)
    is_new = np.ones(len(found), np.bool_)
    is_new[pairs.detection[pairs.overlap > iou]] = False
    new = found[np.argsort(-found.scores, kind="stable")][is_new]
    return Detections(
        np.concatenate((truth.boxes, new.boxes)),
        np.concatenate((np.ones(len(truth.labels), np.float32), new.scores)),
        np.concatenate((truth.labels, new.labels)),
    )


def category_ids(names: tuple[str, ...]) -> list[int]:
    """COCO's own numbers for COCO's own classes, else the numbers of the classes."""
    coco = read_yaml(find_resource("data/coco.yaml", "data")).values["names"]
    if list(names) == list(coco.values() if isinstance(coco, dict) else coco):
        return [number for number in range(1, 91) if number not in _UNUSED]
    return list(range(len(names)))


def image_id(stem: str) -> int | str:
    """The number an image is named by, as in COCO's data sets, else its name."""
    return int(stem) if stem.isdecimal() else stem
