"""Which boxes enter non-maximum suppression: those whose score exceeds the threshold, per image best first.

They are one flat list addressed by starts, not a padded table: images differ widely in how many they have. Rows are
chosen by objectness before any class score is computed, so that the product of rows and classes is formed only for the
few rows that matter. The price is waiting for the device twice, to learn how many there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from yolofast.boxes import cxcywh_to_xyxy


@dataclass(frozen=True)
class Candidates:
    """M boxes; those of image b are `starts[b] : starts[b] + counts[b]`."""

    boxes: Tensor
    """`[M, 4]` float32, xyxy."""
    scores: Tensor
    """`[M]` falling within an image; equal ones in the order of the predictions, then of the classes."""
    labels: Tensor
    """`[M]` int64"""
    starts: Tensor
    """`[B]`"""
    counts: Tensor
    """`[B]` at most the greatest number allowed; the rest of an image's boxes is not looked at."""


def find_candidates(
    predictions: Tensor, conf: float, *, multi_label: bool, classes: Sequence[int] | None, most: int
) -> Candidates:
    """From decoded predictions `[B, N, 5 + nc]`. A row counts once per class, or (not `multi_label`) for its best."""
    usable = (predictions[..., 4] > conf) & predictions[..., :4].isfinite().all(-1)
    image, row = usable.nonzero(as_tuple=True)
    rows = predictions[image, row].float()
    scores = _class_scores(rows)
    if multi_label and scores.shape[1] > 1:
        place, label = (scores > conf).nonzero(as_tuple=True)
        score = scores[place, label]
    else:
        score, label = scores.max(dim=1)
        place = (score > conf).nonzero()[:, 0]
        score, label = score[place], label[place]
    if classes is not None:
        wanted = torch.isin(label, torch.tensor(list(classes), dtype=label.dtype, device=label.device))
        place, label, score = place[wanted], label[wanted], score[wanted]
    return _best_first(cxcywh_to_xyxy(rows[:, :4]), image, place, label, score, len(predictions), most)


def _class_scores(rows: Tensor) -> Tensor:
    """Objectness times class score; with a single class objectness alone, as published."""
    return rows[:, 4:5] if rows.shape[1] == 6 else rows[:, 5:] * rows[:, 4:5]


def _best_first(
    boxes: Tensor, image_of_row: Tensor, place: Tensor, label: Tensor, score: Tensor, batch: int, most: int
) -> Candidates:
    image = image_of_row[place]
    # Positive floats are ordered as their bits are, so one stable sort of integers orders by image, then by score.
    order = torch.sort((image << 32) - score.view(torch.int32).long(), stable=True).indices
    counts = torch.zeros(batch, dtype=torch.long, device=place.device).index_add_(0, image, torch.ones_like(image))
    starts = counts.cumsum(0) - counts
    return Candidates(boxes[place[order]], score[order], label[order], starts, counts.clamp(max=most))
