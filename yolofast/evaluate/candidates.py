"""Which boxes enter non-maximum suppression: those whose score exceeds the threshold, per image best first.

Rows are chosen by objectness before any class score is computed. So rows are multiplied by classes only where it
matters. How many rows the fullest image has is the one thing the host must know; all shapes follow
from it. Images are padded to that, which is wasteful where they differ widely, but nothing else has to be counted.
Only the best candidates are sorted: an untrained network has hundreds of thousands per image.

Axes: B images, N predictions of each, R rows of the fullest image, C classes a row is a candidate for, K candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, cuda

from yolofast.boxes import cxcywh_to_xyxy


class HostCopy:
    """Tensors on their way to the host. `get()` waits, in any thread, and lets other Python threads run meanwhile.

    The copy is queued behind what the current stream does now and goes to pinned memory; an event says when it is
    there. Torch's allocator does not reuse that memory before the copy is over. On a CPU there is nothing to wait for.
    """

    def __init__(self, *tensors: Tensor) -> None:
        self._tensors = tuple(tensor.to("cpu", non_blocking=tensor.is_cuda) for tensor in tensors)
        self._done: cuda.Event | None = None
        if tensors[0].is_cuda:
            self._done = cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            self._done.record(cuda.current_stream(tensors[0].device))

    def get(self) -> tuple[Tensor, ...]:
        if self._done is not None:
            self._done.synchronize()
        return self._tensors


@dataclass(frozen=True)
class Candidates:
    """Up to K boxes of each image; image b has the first `counts[b]`."""

    boxes: Tensor
    """`[B, K, 4]` float32, xyxy."""
    scores: Tensor
    """`[B, K]` falling; equal ones in the order of the predictions, then of the classes."""
    labels: Tensor
    """`[B, K]` int64"""
    counts: Tensor
    """`[B]` at most the greatest number allowed; the rest of an image's boxes is not looked at."""


@dataclass(frozen=True)
class UsableRows:
    """Predictions that may be candidates, by their objectness."""

    predictions: Tensor
    """`[B, N, 5 + nc]`"""
    usable: Tensor
    """`[B, N]` bool"""
    fullest: HostCopy
    """How many the image with most of them has."""


def find_usable_rows(predictions: Tensor, conf: float) -> UsableRows:
    """From decoded predictions of at least one image and one row. Does not wait for the device."""
    usable_BN = (predictions[..., 4] > conf) & predictions[..., :4].isfinite().all(-1)
    return UsableRows(predictions, usable_BN, HostCopy(usable_BN.sum(1).max()))


def best_candidates(
    rows: UsableRows, conf: float, *, multi_label: bool, classes: Sequence[int] | None, most: int
) -> Candidates:
    """A row counts once per class, or (not `multi_label`) for its best. Waits for the number of rows, and no more."""
    rows_BRX, exists_BR = _gathered(rows)
    scores_BRC = class_scores(rows_BRX, exists_BR)
    labels = torch.arange(scores_BRC.shape[2], device=scores_BRC.device)
    if not multi_label:
        scores_BRC, labels = scores_BRC.max(dim=2, keepdim=True)
    counts_BRC = scores_BRC > conf
    if classes is not None:
        chosen = torch.tensor(list(classes), dtype=torch.long, device=labels.device)
        counts_BRC = counts_BRC & torch.isin(labels, chosen)
    key_BK, place_BK = best_of(scores_BRC.flatten(1), counts_BRC.flatten(1), most)
    row_BK, column_BK = place_BK // scores_BRC.shape[2], place_BK % scores_BRC.shape[2]
    return Candidates(
        cxcywh_to_xyxy(rows_BRX[..., :4].gather(1, row_BK[..., None].expand(-1, -1, 4))),
        scores_BRC.flatten(1).gather(1, place_BK),
        column_BK if multi_label else labels.flatten(1).gather(1, row_BK),
        (key_BK > 0).sum(1),
    )


def highest_score(predictions: Tensor, classes: Sequence[int] | None = None) -> float:
    """Of all rows, as they would count for their best class; 0 if none counts. Waits for the device."""
    if not predictions.numel():
        return 0.0
    exists_BN = predictions[..., :4].isfinite().all(-1)
    scores_BN, labels_BN = class_scores(predictions.float(), exists_BN).max(dim=2)
    if classes is not None:
        chosen = torch.tensor(list(classes), dtype=torch.long, device=labels_BN.device)
        scores_BN = torch.where(torch.isin(labels_BN, chosen), scores_BN, 0)
    return float(scores_BN.max())


def _gathered(rows: UsableRows) -> tuple[Tensor, Tensor]:
    """The usable rows of each image, one after the other, `[B, R, 5 + nc]`, and which of these places exist."""
    usable_BN, device = rows.usable, rows.usable.device
    length = max(int(rows.fullest.get()[0]), 1)  # no axis is empty
    # One place more than there are rows takes everything that is not usable.
    place_BN = torch.where(usable_BN, usable_BN.cumsum(1) - 1, length)
    number_BN = torch.arange(usable_BN.shape[1], device=device).expand_as(place_BN)
    row_BR = torch.zeros((len(usable_BN), length + 1), dtype=torch.long, device=device)
    row_BR = row_BR.scatter_(1, place_BN, number_BN)[:, :length]
    image_B1 = torch.arange(len(usable_BN), device=device)[:, None]
    exists_BR = torch.arange(length, device=device) < usable_BN.sum(1, keepdim=True)
    return rows.predictions[image_B1, row_BR].float(), exists_BR


def class_scores(rows_BRX: Tensor, exists_BR: Tensor) -> Tensor:
    """Objectness times class score; with a single class objectness alone, as published."""
    objectness_BR1 = torch.where(exists_BR, rows_BRX[..., 4], 0)[..., None]
    return objectness_BR1 if rows_BRX.shape[2] == 6 else rows_BRX[..., 5:] * objectness_BR1


def best_of(scores_BP: Tensor, counts_BP: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Of the places P that count, the best first: keys, and the places themselves; a key of 0 is none."""
    # Positive floats are ordered as their bits are. With the place below them no two keys are equal, so what is best,
    # and in which order, is certain.
    key_BP = scores_BP.contiguous().view(torch.int32).long().bitwise_left_shift_(32)
    key_BP.sub_(torch.arange(key_BP.shape[1], device=key_BP.device)).masked_fill_(~counts_BP, 0)
    return torch.topk(key_BP, min(most, key_BP.shape[1]), dim=1)
