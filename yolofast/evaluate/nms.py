"""Non-maximum suppression: decoded predictions in, the detections of each image out.

The result is that of the plain greedy algorithm, on any device and for a whole batch at once. torchvision's operator is
not used: it takes one image at a time, and waits for the device at each.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from yolofast.errors import UserError
from yolofast.evaluate.candidates import Candidates, find_candidates
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
    _check(predictions, conf, iou, max_candidates, max_detections)
    candidates = find_candidates(predictions, conf, multi_label=multi_label, classes=classes, most=max_candidates)
    if not len(candidates.scores):
        return [Detections.none() for _ in predictions]
    kept, counts = greedy_suppression(candidates, iou, agnostic=agnostic, most=max_detections)
    return _on_host(candidates, kept, counts)


def _on_host(candidates: Candidates, kept_BS: Tensor, count_B: Tensor) -> list[Detections]:
    """Brought over in one piece; labels are far below 2²⁴ and so survive as floats."""
    scores, labels = candidates.scores[kept_BS, None], candidates.labels[kept_BS, None].float()
    rows = torch.cat((candidates.boxes[kept_BS], scores, labels), dim=-1).cpu().numpy()
    return [
        Detections(row[:n, :4].copy(), row[:n, 4].copy(), row[:n, 5].astype(np.int64))
        for row, n in zip(rows, count_B.tolist(), strict=True)
    ]


def _check(predictions: Tensor, conf: float, iou: float, max_candidates: int, max_detections: int) -> None:
    if predictions.ndim != 3 or predictions.shape[2] < 6:
        raise UserError(f"predictions have shape {tuple(predictions.shape)}", fix="give [batch, n, 5 + classes]")
    for name, value in (("confidence", conf), ("IoU", iou)):
        if not 0 <= value <= 1:
            raise UserError(f"the {name} threshold is {value}", fix="give a number from 0 to 1")
    for name, most in (("candidates", max_candidates), ("detections", max_detections)):
        if most < 1:
            raise UserError(f"the greatest number of {name} is {most}", fix="give at least 1")
