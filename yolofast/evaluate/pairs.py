"""Detections and ground truth of several images laid end to end, and the pairs of the two that share an image.

Pairs are a flat list instead of a table per image, so that matching runs once for any number of images.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yolofast.evaluate.ground_truth import GroundTruth
from yolofast.image_index import Ints, expand, starts_of
from yolofast.structures import Detections

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Flat:
    """D detections, T true boxes and P pairs."""

    scores: Floats
    """[D] falling within an image."""
    labels: Ints
    """[D]"""
    true_labels: Ints
    """[T]"""
    detection: Ints
    """[P] of each pair, rising; all true boxes of one detection follow one another."""
    truth: Ints
    """[P]"""
    overlap: Floats
    """[P] intersection over union."""


def pair_up(detections: Sequence[Detections], truth: Sequence[GroundTruth], *, same_class: bool) -> Flat:
    """One entry per image in both; `same_class` leaves out pairs of different labels."""
    ordered = [one[np.argsort(-one.scores, kind="stable")] for one in detections]
    found = _joined(ordered)
    true_boxes = np.concatenate([np.zeros((0, 4), np.float32), *(one.boxes for one in truth)])
    true_labels = np.concatenate([np.zeros(0, np.int64), *(one.labels for one in truth)])
    starts = starts_of([len(one.labels) for one in truth])
    image = np.repeat(np.arange(len(ordered)), [len(one) for one in ordered])
    detection = np.repeat(np.arange(len(found)), np.diff(starts)[image])
    partner = expand(starts[image], starts[image + 1])
    if same_class:
        same = found.labels[detection] == true_labels[partner]
        detection, partner = detection[same], partner[same]
    overlap = _iou(found.boxes[detection], true_boxes[partner])
    return Flat(found.scores, found.labels, true_labels, detection, partner, overlap)


def _joined(detections: Sequence[Detections]) -> Detections:
    parts = [Detections.none(), *detections]
    return Detections(
        np.concatenate([one.boxes for one in parts]),
        np.concatenate([one.scores for one in parts]),
        np.concatenate([one.labels for one in parts]),
    )


def _iou(first: Floats, second: Floats) -> Floats:
    """Of corresponding boxes, in float32 as published; two empty boxes overlap by 0."""
    sides = np.minimum(first[:, 2:], second[:, 2:]) - np.maximum(first[:, :2], second[:, :2])
    intersection = sides.clip(min=0).prod(axis=1)
    union = _area(first) + _area(second) - intersection
    return np.asarray(np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0))


def _area(boxes: Floats) -> Floats:
    return np.asarray((boxes[:, 2:] - boxes[:, :2]).clip(min=0).prod(axis=1))
