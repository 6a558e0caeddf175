"""The confusion matrix: what detections are taken for what.

Detections above a confidence of 0.25 and true boxes are paired one to one, whatever their classes: the pair with the
largest overlap first, down to 0.45. What is left over is confused with the background. All images are paired at once:
two that are each other's best are a pair, and once they are out of the way others become so.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from yolofast.evaluate.matching import Flat, GroundTruth, RankedDetections, Truth, lay_out, lay_out_truth, pairs_of
from yolofast.image_index import Ints
from yolofast.structures import Detections

_CONFIDENCE = 0.25
_OVERLAP = 0.45


class ConfusionMatrix:
    """Takes batches of any size. Row: predicted class, column: true class; the last of each is the background."""

    def __init__(self, nc: int) -> None:
        self.counts: Ints = np.zeros((nc + 1, nc + 1), np.int64)

    def add(self, detections: Sequence[Detections], truth: Sequence[GroundTruth]) -> None:
        """One entry per image in both, in pixels of the same image."""
        self.add_laid_out(lay_out(detections), lay_out_truth(truth))

    def add_laid_out(self, found: RankedDetections, truth: Truth) -> None:
        flat = pairs_of(found.above(_CONFIDENCE), truth, same_class=False)
        detection, partner = _pair_off(flat)
        extra, missed = np.delete(flat.labels, detection), np.delete(flat.true_labels, partner)
        background = len(self.counts) - 1
        predicted = np.concatenate((flat.labels[detection], extra, np.full_like(missed, background)))
        true = np.concatenate((flat.true_labels[partner], np.full_like(extra, background), missed))
        cells = np.bincount(predicted * len(self.counts) + true, minlength=self.counts.size)
        self.counts += cells.reshape(self.counts.shape)

    def merge(self, other: "ConfusionMatrix") -> None:
        """Add what another process gathered."""
        self.counts += other.counts

    def shares(self) -> npt.NDArray[np.float64]:
        """[nc + 1, nc + 1] of each true class, what it was taken for; columns sum to 1, or to 0 if there is none."""
        return np.asarray(self.counts / np.maximum(self.counts.sum(axis=0), 1))


def _pair_off(flat: Flat) -> tuple[Ints, Ints]:
    """Detections and the true boxes they are paired with."""
    near = flat.overlap > _OVERLAP
    # In order of falling overlap, the first entry of a detection or a true box is its best.
    order = np.argsort(-flat.overlap[near], kind="stable")
    detection, truth = flat.detection[near][order], flat.truth[near][order]
    found_detection, found_truth = [detection[:0]], [truth[:0]]
    while len(detection):
        best = np.intersect1d(np.unique(detection, return_index=True)[1], np.unique(truth, return_index=True)[1])
        found_detection.append(detection[best])
        found_truth.append(truth[best])
        left = ~np.isin(detection, detection[best]) & ~np.isin(truth, truth[best])
        detection, truth = detection[left], truth[left]
    return np.concatenate(found_detection), np.concatenate(found_truth)
