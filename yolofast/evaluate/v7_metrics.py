"""YOLOv7's own metrics: precision, recall, F1 and mAP per class, gathered batch by batch.

They differ from COCO's in the matching rule (`matching`) and in how the area below the curve is read. YOLOv7 prints
them and chooses its best checkpoint by them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from yolofast.evaluate.matching import (
    THRESHOLDS,
    GroundTruth,
    RankedDetections,
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
Sentinel = Literal["v7", "v5"]
"""Where the curve of precision over recall is brought down to 0: `v7` 0.01 behind the highest recall reached, `v5`
(`--v5-metric`) at a recall of 1."""
GRID = np.linspace(0, 1, 1000)
"""The confidences, and the recalls, the curves are read at."""
_RECALLS = np.linspace(0, 1, 101)


@dataclass(frozen=True)
class Curves:
    """The curves behind the numbers at an overlap of 0.5; one row per class of the result."""

    precision: Floats
    """[k, 1000] over confidence."""
    recall: Floats
    """[k, 1000] over confidence."""
    precision_at_recall: Floats
    """[k, 1000] over recall."""

    @property
    def f1(self) -> Floats:
        """[k, 1000] over confidence."""
        return 2 * self.precision * self.recall / (self.precision + self.recall + 1e-16)


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


class _Batch(NamedTuple):
    """What is counted of a batch."""

    places: Ints
    """Of its images."""
    counts: Ints
    """How many detections each image has."""
    passed: npt.NDArray[np.uint8]
    """Of each detection, how many of the rising thresholds it is right at."""
    scores: npt.NDArray[np.float32]
    labels: Ints
    true_labels: Ints


_NONE = np.zeros(0, np.int64)
_EMPTY = _Batch(_NONE, _NONE, _NONE.astype(np.uint8), _NONE.astype(np.float32), _NONE, _NONE)


class V7Metrics:
    """Takes batches of any size, then gives the result. Results of several processes are joined by `merge`."""

    def __init__(self) -> None:
        self._batches = [_EMPTY]

    def add(self, detections: Sequence[Detections], truth: Sequence[GroundTruth], places: Ints | None = None) -> None:
        """One entry per image in both, in pixels of the same image.

        `places` number the images, by default as they come. Of equal scores the image with the lower number counts
        first. With places in the split the result thus does not depend on the order of batches and processes.
        """
        assert len(detections) == len(truth)
        if places is None:
            start = sum(len(batch.places) for batch in self._batches)
            places = np.arange(start, start + len(detections))
        self.add_laid_out(lay_out(detections), lay_out_truth(truth), places)

    def add_laid_out(self, found: RankedDetections, truth: Truth, places: Ints) -> None:
        passed = right_detections(pairs_of(found, truth, same_class=True)).sum(axis=1, dtype=np.uint8)
        places, counts, own = np.asarray(places, np.int64), found.per_image(), found.detections
        self._batches.append(_Batch(places, counts, passed, own.scores, own.labels, truth.labels))

    def merge(self, other: "V7Metrics") -> None:
        """Add what another process gathered."""
        self._batches += other._batches

    def result(self, sentinel: Sentinel = "v7") -> V7Result:
        whole = _Batch(*map(np.concatenate, zip(*self._batches, strict=True)))
        classes, boxes = np.unique(whole.true_labels, return_counts=True)
        ap, curves = np.zeros((len(classes), len(THRESHOLDS))), Curves(*np.zeros((3, len(classes), len(GRID))))
        for row, chosen in enumerate(_of_each(classes, whole)):
            if not len(chosen):
                continue
            best_first = chosen[np.argsort(-whole.scores[chosen], kind="stable")]
            passed = whole.passed[best_first]
            precision, recall = precision_recall(passed > 0, int(boxes[row]))
            fill_row(curves, row, whole.scores[best_first], precision, recall, sentinel)
            ap[row] = average_precisions(passed, int(boxes[row]), sentinel)
        return V7Result(classes=classes, boxes=boxes, images=len(whole.places), ap=ap, curves=curves)


def _of_each(classes: Ints, whole: _Batch) -> list[Ints]:
    """The detections of each of these classes, in the order of the images' places.

    One sort of whole images and one of small integers, instead of one of all detections by place, score and label.
    """
    by_place, starts = np.argsort(whole.places, kind="stable"), starts_of(whole.counts)
    in_order = expand(starts[by_place], starts[by_place + 1])
    labels: npt.NDArray[Any] = whole.labels[in_order]
    if labels.max(initial=0) < 2**16:
        labels = labels.astype(np.uint16)  # these NumPy sorts without comparing
    by_label = np.argsort(labels, kind="stable")
    labels, in_order = labels[by_label], in_order[by_label]
    first, last = np.searchsorted(labels, classes), np.searchsorted(labels, classes, side="right")
    return [in_order[start:stop] for start, stop in zip(first, last, strict=True)]


def fill_row(
    curves: Curves, row: int, scores: npt.NDArray[np.float32], precision: Floats, recall: Floats, sentinel: Sentinel
) -> None:
    """Read one class's curves from its detections, [n] each in order of falling score."""
    # Above the best score nothing is detected: recall is 0, precision by convention 1.
    curves.precision[row] = np.interp(-GRID, -scores, precision, left=1)
    curves.recall[row] = np.interp(-GRID, -scores, recall, left=0)
    curves.precision_at_recall[row] = np.interp(GRID, *envelope(precision, recall, sentinel))


def precision_recall(right: npt.NDArray[np.bool_], boxes: int) -> tuple[Floats, Floats]:
    """[n, …] both, if the detections down to this one are counted; `boxes` is how many there are to find."""
    hits = right.cumsum(axis=0)
    tries = np.arange(1, len(right) + 1).reshape(-1, *[1] * (right.ndim - 1))
    return hits / tries, hits / boxes


def envelope(precision: Floats, recall: Floats, sentinel: Sentinel) -> tuple[Floats, Floats]:
    """Recall and precision of the curve's corners, [n + 2] each; precision never rises again with recall."""
    end = recall[-1] + 0.01 if sentinel == "v7" else 1.0
    corners = np.concatenate(([0.0], recall, [end]))
    heights = np.concatenate(([1.0], precision, [0.0]))
    return corners, np.maximum.accumulate(heights[::-1])[::-1]


def average_precision(precision: Floats, recall: Floats, sentinel: Sentinel) -> float:
    """The area below the envelope, read at 101 recalls and joined by straight lines."""
    heights = np.interp(_RECALLS, *envelope(precision, recall, sentinel))
    return float(((heights[1:] + heights[:-1]) / 2 * np.diff(_RECALLS)).sum())


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
