"""YOLOv7's own metrics: precision, recall, F1 and mAP per class, gathered batch by batch.

They differ from COCO's in the matching rule (`matching`) and in how the area below the curve is read
(`average_precision`), and are what YOLOv7 prints and chooses its best checkpoint by.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yolofast.evaluate.average_precision import (
    GRID,
    Curves,
    Sentinel,
    average_precision,
    empty_curves,
    fill_row,
    precision_recall,
)
from yolofast.evaluate.matching import (
    THRESHOLDS,
    Found,
    GroundTruth,
    Truth,
    lay_out,
    lay_out_truth,
    pairs_of,
    right_detections,
)
from yolofast.image_index import Ints, expand, starts_of
from yolofast.runs.layout import fitness
from yolofast.structures import Detections

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class V7Result:
    """Scores of the k classes that occur in the ground truth."""

    classes: Ints
    """[k]"""
    boxes: Ints
    """[k] how many of each there are to find."""
    images: int
    ap: Floats
    """[k, 10] at overlaps of 0.50, 0.55 … 0.95."""
    curves: Curves

    @property
    def best(self) -> int:
        """The place on the grid of confidences where F1, averaged over the classes, is highest."""
        return int(self.curves.f1.mean(axis=0).argmax()) if len(self.classes) else 0

    @property
    def confidence(self) -> float:
        return float(GRID[self.best])

    @property
    def precision(self) -> Floats:
        """[k] at that confidence."""
        return self.curves.precision[:, self.best]

    @property
    def recall(self) -> Floats:
        return self.curves.recall[:, self.best]

    @property
    def f1(self) -> Floats:
        return self.curves.f1[:, self.best]

    @property
    def mean_precision(self) -> float:
        return _mean(self.precision)

    @property
    def mean_recall(self) -> float:
        return _mean(self.recall)

    @property
    def map50(self) -> float:
        return _mean(self.ap[:, 0])

    @property
    def map(self) -> float:
        """mAP50-95"""
        return _mean(self.ap)

    @property
    def fitness(self) -> float:
        """What YOLOv7 chooses its best checkpoint by."""
        return fitness(self.map50, self.map)

    def map_per_class(self, nc: int) -> Floats:
        """[nc] mAP50-95; a class that does not occur has the mean of the others."""
        maps = np.full(nc, self.map)
        maps[self.classes] = self.ap.mean(axis=1)
        return maps


class V7Metrics:
    """Takes batches of any size, then gives the result. Results of several processes are joined by `merge`."""

    def __init__(self) -> None:
        self._places = [np.zeros(0, np.int64)]
        """Of the images."""
        self._counts = [np.zeros(0, np.int64)]
        """How many detections each image has."""
        self._passed = [np.zeros(0, np.uint8)]
        """Of each detection, how many of the rising thresholds it is right at."""
        self._scores = [np.zeros(0, np.float32)]
        self._labels = [np.zeros(0, np.int64)]
        self._true_labels = [np.zeros(0, np.int64)]

    def add(self, detections: Sequence[Detections], truth: Sequence[GroundTruth], places: Ints | None = None) -> None:
        """One entry per image in both, in pixels of the same image.

        `places` number the images, by default as they come. Of equal scores the image with the lower number counts
        first, so with their places in the split the result does not depend on the order of batches and processes.
        """
        assert len(detections) == len(truth)
        if places is None:
            seen = sum(map(len, self._places))
            places = np.arange(seen, seen + len(detections))
        self.add_laid_out(lay_out(detections), lay_out_truth(truth), places)

    def add_laid_out(self, found: Found, truth: Truth, places: Ints) -> None:
        right = right_detections(pairs_of(found, truth, same_class=True))
        self._places.append(np.asarray(places, np.int64))
        self._counts.append(found.per_image())
        self._passed.append(right.sum(axis=1, dtype=np.uint8))
        self._scores.append(found.scores)
        self._labels.append(found.labels)
        self._true_labels.append(truth.labels)

    def merge(self, other: "V7Metrics") -> None:
        """Add what another process gathered."""
        self._places += other._places
        self._counts += other._counts
        self._passed += other._passed
        self._scores += other._scores
        self._labels += other._labels
        self._true_labels += other._true_labels

    def result(self, sentinel: Sentinel = "v7") -> V7Result:
        classes, boxes = np.unique(np.concatenate(self._true_labels), return_counts=True)
        ap, curves = np.zeros((len(classes), len(THRESHOLDS))), empty_curves(len(classes))
        scores, passed = np.concatenate(self._scores), np.concatenate(self._passed)
        for row, chosen in enumerate(self._of_each(classes)):
            if not len(chosen):
                continue
            best_first = chosen[np.argsort(-scores[chosen], kind="stable")]
            precision, recall = precision_recall(passed[best_first] > 0, int(boxes[row]))
            fill_row(curves, row, scores[best_first], precision, recall, sentinel)
            ap[row] = average_precisions(passed[best_first], int(boxes[row]), sentinel)
        images = sum(map(len, self._places))
        return V7Result(classes=classes, boxes=boxes, images=images, ap=ap, curves=curves)

    def _of_each(self, classes: Ints) -> list[Ints]:
        """The detections of each of these classes, in the order of the images' places.

        One sort of whole images and one of small integers, instead of one of all detections by place, score and label.
        """
        counts, by_place = np.concatenate(self._counts), np.argsort(np.concatenate(self._places), kind="stable")
        starts = starts_of(counts)
        in_order = expand(starts[by_place], starts[by_place + 1])
        labels = np.concatenate(self._labels)[in_order]
        if labels.max(initial=0) < 2**16:
            labels = labels.astype(np.uint16)  # these NumPy sorts without comparing
        by_label = np.argsort(labels, kind="stable")
        labels, in_order = labels[by_label], in_order[by_label]
        first, last = np.searchsorted(labels, classes), np.searchsorted(labels, classes, side="right")
        return [in_order[start:stop] for start, stop in zip(first, last, strict=True)]


def average_precisions(passed: npt.NDArray[np.uint8], boxes: int, sentinel: Sentinel) -> list[float]:
    """AP at each threshold, of detections in order of falling score.

    Where the curve of precision over recall has its corners: at detections that are right and just before them. What is
    between lies on the straight lines, so it is left out; that is most of them.
    """
    right = np.append(passed > 0, True)
    corner = np.flatnonzero(right[:-1] | right[1:])
    hits = (passed[corner, None] > np.arange(len(THRESHOLDS))).cumsum(axis=0)
    precision, recall = hits / (corner + 1)[:, None], hits / boxes
    return [average_precision(p, r, sentinel) for p, r in zip(precision.T, recall.T, strict=True)]


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else 0.0
