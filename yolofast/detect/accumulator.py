"""The metrics of an evaluation, accumulated batch by batch.

A `MetricAccumulator` holds no images, model or index, so processes that evaluate parts of a split can send theirs
(pickled) and `merge` them. Images are known by their place in the split and sums are exact. So the result
does not depend on which process evaluated what, or in which order.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from yolofast.evaluate.confusion import ConfusionMatrix
from yolofast.evaluate.image_faults import ImageFaults
from yolofast.evaluate.matching import lay_out, truth_of
from yolofast.evaluate.v7_metrics import V7Metrics, V7Result
from yolofast.image_index import ImageIndex, Ints
from yolofast.structures import Detections


@dataclass(frozen=True)
class Evaluated:
    metrics: V7Result
    confusion: ConfusionMatrix
    faults: ImageFaults
    losses: dict[str, float]
    """Mean of each term over the batches; empty without a criterion."""
    found: tuple[tuple[int, Detections], ...] = ()
    """Place in the split and what was found there, in original pixels and the order of the split; with `keep`."""
    epoch: int | None = None
    """Of the run that trained the weights, from 0; None if unknown."""


class MetricAccumulator:
    """`add` batches, then read `result`."""

    def __init__(self, classes: int, *, keep: bool = False) -> None:
        """`keep` the detections too, for files and for COCO's metrics."""
        self._metrics, self._confusion, self._faults = V7Metrics(), ConfusionMatrix(classes), ImageFaults()
        self._keep = keep
        self._found: list[tuple[int, Detections]] = []
        self._losses: list[Mapping[str, float]] = []

    def add(self, index: ImageIndex, sources: Ints, found: Sequence[Detections]) -> None:
        """Detections in original pixels, those of each image of `sources`."""
        laid_out, truth = lay_out(found), truth_of(index, sources)
        self._metrics.add_laid_out(laid_out, truth, sources)
        self._confusion.add_laid_out(laid_out, truth)
        self._faults.add(found, truth.per_image(), sources)
        if self._keep:
            self._found += zip(sources.tolist(), found, strict=True)

    def add_losses(self, losses: Sequence[Mapping[str, float]]) -> None:
        """The terms of each batch, the same ones for all of them."""
        self._losses += losses

    def merge(self, other: "MetricAccumulator") -> None:
        """Add what another process counted."""
        self._metrics.merge(other._metrics)
        self._confusion.merge(other._confusion)
        self._faults.merge(other._faults)
        self._found += other._found
        self._losses += other._losses

    def result(self, *, v5_metric: bool = False) -> Evaluated:
        terms, batches = self._losses[0] if self._losses else (), len(self._losses)
        return Evaluated(
            self._metrics.result("v5" if v5_metric else "v7"),
            self._confusion,
            self._faults,
            {term: math.fsum(batch[term] for batch in self._losses) / batches for term in terms},
            tuple(sorted(self._found, key=lambda pair: pair[0])),
        )
