"""Detections compared with ground truth: the pairs that share an image, and YOLOv7's rule of which are right.

Detections and true boxes of several images are laid end to end instead of in a table per image. So matching runs once
for any number of images, and the layout is made once for all metrics.

The rule: in order of falling score each detection looks at the true box of its class that it overlaps most. If the
overlap is more than 0.5 and no earlier detection took that box, it takes the box. It is then right at every threshold
that its overlap exceeds. There is no second choice; COCO's rule has one.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yolofast.image_index import ImageIndex, Ints, expand, starts_of
from yolofast.structures import Detections


@dataclass(frozen=True)
class GroundTruth:
    boxes: npt.NDArray[np.float32]
    """[m, 4] x1, y1, x2, y2 in pixels."""
    labels: npt.NDArray[np.int64]
    """[m]"""


def ground_truth(index: ImageIndex, images: Iterable[int]) -> list[GroundTruth]:
    """The boxes of these images of the split in original pixels, without crowds: YOLOv7's labels do not know them."""
    return truth_of(index, np.fromiter(images, np.int64)).per_image()


def pixel_corners(boxes: npt.NDArray[np.float32], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """cx, cy, w, h as shares to x1, y1, x2, y2 in pixels; `sizes` are width and height, of all or of each."""
    centre, half = boxes[:, :2].astype(np.float64), boxes[:, 2:].astype(np.float64) / 2
    return np.concatenate(((centre - half) * sizes, (centre + half) * sizes), axis=1)


Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class RankedDetections:
    """The D detections of some images, those of each in order of falling score."""

    detections: Detections
    image: Ints
    """[D] rising; which of the images each is on."""
    images: int

    def above(self, score: float) -> "RankedDetections":
        chosen = self.detections.scores > score
        return RankedDetections(self.detections[chosen], self.image[chosen], self.images)

    def per_image(self) -> Ints:
        """How many each image has."""
        return np.bincount(self.image, minlength=self.images)


@dataclass(frozen=True)
class Truth:
    """The T true boxes of some images; those of image i are `starts[i] : starts[i + 1]`."""

    boxes: Floats
    labels: Ints
    starts: Ints

    def per_image(self) -> list[GroundTruth]:
        limits = self.starts.tolist()
        return [GroundTruth(self.boxes[a:b], self.labels[a:b]) for a, b in itertools.pairwise(limits)]


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
    return pairs_of(lay_out(detections), lay_out_truth(truth), same_class=same_class)


def lay_out(detections: Sequence[Detections]) -> RankedDetections:
    joined = Detections.joined(detections)
    image = np.repeat(np.arange(len(detections)), [len(one) for one in detections])
    scores = joined.scores
    if ((scores[1:] > scores[:-1]) & (image[1:] == image[:-1])).any():  # those of our suppression are in order
        joined = joined[np.lexsort((-scores, image))]
    return RankedDetections(joined, image, len(detections))


def lay_out_truth(truth: Sequence[GroundTruth]) -> Truth:
    boxes = np.concatenate([np.zeros((0, 4), np.float32), *(one.boxes for one in truth)])
    labels = np.concatenate([np.zeros(0, np.int64), *(one.labels for one in truth)])
    return Truth(boxes, labels, starts_of([len(one.labels) for one in truth]))


def truth_of(index: ImageIndex, images: Ints) -> Truth:
    """`lay_out_truth(ground_truth(index, images))`, without anything per image."""
    box = expand(index.starts[images], index.starts[images + 1])
    image = np.repeat(np.arange(len(images)), np.diff(index.starts)[images])
    real = ~index.crowd[box]
    box, image = box[real], image[real]
    boxes = pixel_corners(index.boxes[box], index.sizes[images[image]]).astype(np.float32)
    return Truth(boxes, index.labels[box], starts_of(np.bincount(image, minlength=len(images))))


def pairs_of(found: RankedDetections, truth: Truth, *, same_class: bool) -> Flat:
    detection, partner = _of_one_class(found, truth) if same_class else _of_one_image(found, truth)
    overlap = _iou(found.detections.boxes, detection, truth.boxes, partner)
    return Flat(found.detections.scores, found.detections.labels, truth.labels, detection, partner, overlap)


def _of_one_image(found: RankedDetections, truth: Truth) -> tuple[Ints, Ints]:
    first, last = truth.starts[found.image], truth.starts[found.image + 1]
    return np.repeat(np.arange(len(found.detections)), last - first), expand(first, last)


def _of_one_class(found: RankedDetections, truth: Truth) -> tuple[Ints, Ints]:
    """True boxes sorted by image and class, and where those of each begin: most detections have no partner at all."""
    classes = 1 + max(int(labels.max(initial=0)) for labels in (found.detections.labels, truth.labels))
    group = np.repeat(np.arange(found.images), np.diff(truth.starts)) * classes + truth.labels
    starts = starts_of(np.bincount(group, minlength=found.images * classes))
    own = found.image * classes + found.detections.labels
    detection = np.flatnonzero(starts[own + 1] > starts[own])
    first, last = starts[own[detection]], starts[own[detection] + 1]
    return np.repeat(detection, last - first), np.argsort(group, kind="stable")[expand(first, last)]


def _iou(boxes: Floats, first: Ints, others: Floats, second: Ints) -> Floats:
    """Of corresponding boxes, in float32 as published; two empty boxes overlap by 0."""
    x1, y1, x2, y2 = boxes[first].T
    u1, v1, u2, v2 = others[second].T
    width = np.maximum(np.minimum(x2, u2) - np.maximum(x1, u1), 0)
    height = np.maximum(np.minimum(y2, v2) - np.maximum(y1, v1), 0)
    intersection = width * height
    union = _area(boxes)[first] + _area(others)[second] - intersection
    return np.asarray(np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0))


def _area(boxes: Floats) -> Floats:
    return np.asarray(np.maximum(boxes[:, 2] - boxes[:, 0], 0) * np.maximum(boxes[:, 3] - boxes[:, 1], 0))


# Single precision as published, which decides what equals a threshold.
THRESHOLDS = np.linspace(0.5, 0.95, 10, dtype=np.float32)


def right_detections(flat: Flat) -> npt.NDArray[np.bool_]:
    """[D, 10] for pairs of the same class: right at each of the thresholds."""
    detection, truth, overlap = _best_of_each(flat)
    # Detections of an image are in order of their scores, so of each true box the first taker is the best one.
    _, first = np.unique(truth, return_index=True)
    right = np.zeros((len(flat.scores), len(THRESHOLDS)), dtype=np.bool_)
    right[detection[first]] = overlap[first, None] > THRESHOLDS
    return right


def _best_of_each(flat: Flat) -> tuple[Ints, Ints, Floats]:
    """Of each detection that overlaps enough: itself, the true box it overlaps most (of equals the first), how far."""
    enough = flat.overlap > THRESHOLDS[0]
    detection, truth, overlap = flat.detection[enough], flat.truth[enough], flat.overlap[enough]
    order = np.lexsort((truth, -overlap, detection))
    detection, best = np.unique(detection[order], return_index=True)
    return detection, truth[order][best], overlap[order][best]
