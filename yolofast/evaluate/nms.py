"""Non-maximum suppression: decoded predictions in, the detections of each image out.

The result is that of the plain greedy algorithm, on any device and for a whole batch at once. The operator of
torchvision is not used: it takes one image at a time, and waits for the device at each (`benchmarks.bench_val` measures
it too).

The host has to know two things: how many rows enter, and what is found. `non_max_suppression` waits for both. Code that
has a next batch calls `Thresholds.begin`, launches that batch, and asks afterwards: then the device never idles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from yolofast.errors import UserError
from yolofast.evaluate.candidates import HostCopy, UsableRows, best_candidates, find_usable_rows
from yolofast.evaluate.greedy import greedy_suppression
from yolofast.structures import Detections


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """YOLOv7 validates with conf 0.001, iou 0.65, multi_label, and detects with 0.25, 0.45, best class."""

    conf: float
    """Scores above it count: objectness × class, or objectness alone if there is one class."""
    iou: float
    """Boxes that overlap a better one by more are suppressed."""
    multi_label: bool
    """A box is a candidate for every class above `conf`; otherwise for its best class only."""
    agnostic: bool = False
    """Overlaps count across classes."""
    classes: Sequence[int] | None = None
    """Only these are kept; None: all."""
    max_candidates: int = 30_000
    max_detections: int = 300
    """Of an image."""

    def __post_init__(self) -> None:
        for name, value in (("confidence", self.conf), ("IoU", self.iou)):
            if not 0 <= value <= 1:
                raise UserError(f"the {name} threshold is {value}", fix="give a number from 0 to 1")
        for name, most in (("candidates", self.max_candidates), ("detections", self.max_detections)):
            if most < 1:
                raise UserError(f"the greatest number of {name} is {most}", fix="give at least 1")

    @torch.no_grad()
    def begin(self, predictions: Tensor) -> "BegunSuppression":
        """Waits for nothing."""
        if predictions.ndim != 3 or predictions.shape[2] < 6:
            raise UserError(f"predictions have shape {tuple(predictions.shape)}", fix="give [batch, n, 5 + classes]")
        rows = find_usable_rows(predictions, self.conf) if predictions.numel() else None
        return BegunSuppression(self, len(predictions), rows)

    def detections(self, predictions: Tensor) -> list[Detections]:
        """Of each image, in input pixels, from `[B, N, 5 + nc]` as `decode` gives them. Waits for the device."""
        return self.begin(predictions).launch().get()


def non_max_suppression(predictions: Tensor, conf: float, iou: float, **settings: Any) -> list[Detections]:
    """`Thresholds.detections`, for one call; `settings` are the other fields of `Thresholds`."""
    return Thresholds(conf=conf, iou=iou, **settings).detections(predictions)


@dataclass(frozen=True)
class BegunSuppression:
    """Rows are being counted. Holds the predictions, so launch it soon."""

    thresholds: Thresholds
    images: int
    rows: UsableRows | None
    """None: there is nothing to look at."""

    @torch.no_grad()
    def launch(self) -> "LateDetections":
        """The rest of the work. Waits until the rows are counted, on a GPU for nothing that was launched since."""
        if self.rows is None:
            return LateDetections(self.images, None)
        chosen = self.thresholds
        candidates = best_candidates(
            self.rows, chosen.conf, multi_label=chosen.multi_label, classes=chosen.classes, most=chosen.max_candidates
        )
        kept_BS, count_B = greedy_suppression(
            candidates, chosen.iou, agnostic=chosen.agnostic, most=chosen.max_detections
        )
        # In one piece; labels are far below 2²⁴ and so survive as floats.
        boxes_BS4 = candidates.boxes.gather(1, kept_BS[..., None].expand(-1, -1, 4))
        scores_BS, labels_BS = candidates.scores.gather(1, kept_BS), candidates.labels.gather(1, kept_BS)
        rows_BS6 = torch.cat((boxes_BS4, scores_BS[..., None], labels_BS[..., None].float()), dim=-1)
        return LateDetections(self.images, HostCopy(rows_BS6, count_B))


class LateDetections:
    """What is found in a batch, once the device has found it."""

    def __init__(self, images: int, copy: HostCopy | None) -> None:
        self._images, self._copy = images, copy

    def get(self) -> list[Detections]:
        """Waits for the device; may be called in any thread."""
        if self._copy is None:
            return [Detections.none() for _ in range(self._images)]
        rows, counts = self._copy.get()
        table = rows.numpy()
        boxes, scores, labels = table[..., :4].copy(), table[..., 4].copy(), table[..., 5].astype(np.int64)
        return [Detections(boxes[b, :n], scores[b, :n], labels[b, :n]) for b, n in enumerate(counts.tolist())]
