"""YOLOv7's own metrics: precision, recall, F1 and mAP per class, gathered batch by batch.

They differ from COCO's in the matching rule (`v7_matching`) and in how the area below the curve is read
(`average_precision`), and are what YOLOv7 prints and chooses its best checkpoint by.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yolofast.evaluate.average_precision import Sentinel, average_precision, precision_recall
from yolofast.evaluate.curves import GRID, Curves, empty_curves, fill_row
from yolofast.evaluate.ground_truth import GroundTruth
from yolofast.evaluate.pairs import pair_up
from yolofast.evaluate.v7_matching import THRESHOLDS, right_detections
from yolofast.image_index import Ints
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
        return 0.1 * self.map50 + 0.9 * self.map

    def map_per_class(self, nc: int) -> Floats:
        """[nc] mAP50-95; a class that does not occur has the mean of the others."""
        maps = np.full(nc, self.map)
        maps[self.classes] = self.ap.mean(axis=1)
        return maps


class V7Metrics:
    """Takes batches of any size, then gives the result. Results of several processes are joined by `merge`."""

    def __init__(self) -> None:
        self._images = 0
        self._places = [np.zeros(0, np.int64)]
        self._right = [np.zeros((0, len(THRESHOLDS)), np.bool_)]
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
            places = np.arange(self._images, self._images + len(detections))
        flat = pair_up(detections, truth, same_class=True)
        self._images += len(detections)
        self._places.append(np.repeat(places, [len(one) for one in detections]))
        self._right.append(right_detections(flat))
        self._scores.append(flat.scores)
        self._labels.append(flat.labels)
        self._true_labels.append(flat.true_labels)

    def merge(self, other: "V7Metrics") -> None:
        """Add what another process gathered."""
        self._images += other._images
        self._places += other._places
        self._right += other._right
        self._scores += other._scores
        self._labels += other._labels
        self._true_labels += other._true_labels

    def result(self, sentinel: Sentinel = "v7") -> V7Result:
        classes, boxes = np.unique(np.concatenate(self._true_labels), return_counts=True)
        ap, curves = np.zeros((len(classes), len(THRESHOLDS))), empty_curves(len(classes))
        scores, labels = np.concatenate(self._scores), np.concatenate(self._labels)
        order = np.lexsort((np.concatenate(self._places), -scores, labels))
        scores, labels, right = scores[order], labels[order], np.concatenate(self._right)[order]
        starts, stops = np.searchsorted(labels, classes), np.searchsorted(labels, classes, side="right")
        for row, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            if start == stop:
                continue
            precision, recall = precision_recall(right[start:stop], int(boxes[row]))
            fill_row(curves, row, scores[start:stop], precision[:, 0], recall[:, 0], sentinel)
            ap[row] = [average_precision(p, r, sentinel) for p, r in zip(precision.T, recall.T, strict=True)]
        return V7Result(classes=classes, boxes=boxes, images=self._images, ap=ap, curves=curves)


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else 0.0
