"""Non-maximum suppression: decoded predictions in, the detections of each image out.

The result is that of the plain greedy algorithm, on any device and for a whole batch at once. torchvision's operator is
not used: it takes one image at a time, and waits for the device at each (`benchmarks.bench_val` measures it too).

There are two things the host has to know: how many rows enter, and what is found. `non_max_suppression` waits for both.
Who has a next batch to launch in the meantime begins (`begin_suppression`), launches that, and asks afterwards: then
the device never stands idle.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from yolofast.errors import UserError
from yolofast.evaluate.candidates import HostCopy, UsableRows, best_candidates, find_usable_rows
from yolofast.evaluate.greedy import greedy_suppression
from yolofast.structures import Detections


@torch.no_grad()
def non_max_suppression(
    predictions: Tensor,
    conf: float,
    iou: float,
    *,
    multi_label: bool,
    agnostic: bool = False,
    classes: Sequence[int] | None = None,
    max_candidates: int = 30_000,
    max_detections: int = 300,
) -> list[Detections]:
    """Detections in input pixels from `[B, N, 5 + nc]` as `decode` gives them.

    A row is a candidate for every class whose score (objectness × class; objectness alone if there is one class) is
    above `conf`, or for its best class only (not `multi_label`). `classes` keeps only these. YOLOv7 validates with conf
    0.001, iou 0.65, multi_label, and detects with 0.25, 0.45, best class.
    """
    begun = begin_suppression(
        predictions, conf, iou, multi_label=multi_label, agnostic=agnostic, classes=classes,
        max_candidates=max_candidates, max_detections=max_detections,
    )  # fmt: skip
    return begun.launch().get()


@torch.no_grad()
def begin_suppression(
    predictions: Tensor,
    conf: float,
    iou: float,
    *,
    multi_label: bool,
    agnostic: bool = False,
    classes: Sequence[int] | None = None,
    max_candidates: int = 30_000,
    max_detections: int = 300,
) -> "BegunSuppression":
    """As `non_max_suppression`, but waits for nothing."""
    _check(predictions, conf, iou, max_candidates, max_detections)
    rows = find_usable_rows(predictions, conf) if predictions.numel() else None
    return BegunSuppression(
        images=len(predictions), rows=rows, conf=conf, iou=iou, multi_label=multi_label, agnostic=agnostic,
        classes=classes, max_candidates=max_candidates, max_detections=max_detections,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BegunSuppression:
    """Rows are being counted. Holds the predictions, so launch it soon."""

    images: int
    rows: UsableRows | None
    """None: there is nothing to look at."""
    conf: float
    iou: float
    multi_label: bool
    agnostic: bool
    classes: Sequence[int] | None
    max_candidates: int
    max_detections: int

    @torch.no_grad()
    def launch(self) -> "LateDetections":
        """The rest of the work. Waits until the rows are counted, on a GPU for nothing that was launched since."""
        if self.rows is None:
            return LateDetections(self.images, None)
        candidates = best_candidates(
            self.rows, self.conf, multi_label=self.multi_label, classes=self.classes, most=self.max_candidates
        )
        kept_BS, count_B = greedy_suppression(candidates, self.iou, agnostic=self.agnostic, most=self.max_detections)
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


def _check(predictions: Tensor, conf: float, iou: float, max_candidates: int, max_detections: int) -> None:
    if predictions.ndim != 3 or predictions.shape[2] < 6:
        raise UserError(f"predictions have shape {tuple(predictions.shape)}", fix="give [batch, n, 5 + classes]")
    for name, value in (("confidence", conf), ("IoU", iou)):
        if not 0 <= value <= 1:
            raise UserError(f"the {name} threshold is {value}", fix="give a number from 0 to 1")
    for name, most in (("candidates", max_candidates), ("detections", max_detections)):
        if most < 1:
            raise UserError(f"the greatest number of {name} is {most}", fix="give at least 1")
