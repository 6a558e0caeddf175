"""Candidates for suppression, and what it keeps, in fixed numbers of places: a graph can be captured, nothing waits.

The best come first, in the order of `evaluate.candidates`. As written all rows are decoded. For 64 images those are
gigabytes of float32, of which some hundred rows are used. On a GPU three kernels read the raw maps once. The first
finds each row's best class, and decodes the box if its score counts. The second looks for the score that is just good
enough. The third sorts what is at least as good: each row counts the better ones.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from yolofast.boxes import cxcywh_to_xyxy
from yolofast.decoding import LARGEST_LOG_SIZE, decode
from yolofast.detect.letterbox import Pictures
from yolofast.evaluate.candidates import Candidates, best_of, class_scores
from yolofast.evaluate.greedy import greedy_suppression
from yolofast.evaluate.nms import Thresholds
from yolofast.fused.norm_act import power_of_two
from yolofast.precision import kernels_for
from yolofast.structures import RawMapReader

PLACES = 4096
"""Of an image."""
_NUMBERS, _CHUNK, _ROWS = 4096, 4096, 64
_FEW_IMAGES = 8
"""Of which more programs, each with less to do, rank the keys."""


def fixed_candidates(raw: Sequence[Tensor], model: RawMapReader, chosen: Thresholds) -> Candidates:
    """Of each row's best class, from raw maps."""
    layout = model.layout
    raw = raw[: layout.levels * layout.heads]
    simple = layout.kind in ("anchor", "point") and layout.heads == 1
    if simple and kernels_for(raw[0]) and all(one.stride(-1) == 1 for one in raw):
        return _by_kernels(raw, model, chosen)
    return of_predictions(decode(raw, model), chosen)


def of_predictions(predictions: Tensor, chosen: Thresholds) -> Candidates:
    exists_BN = (predictions[..., 4] > chosen.conf) & predictions[..., :4].isfinite().all(-1)
    scores_BN, labels_BN = class_scores(predictions, exists_BN).max(dim=2)
    counts_BN = scores_BN > chosen.conf
    if chosen.classes is not None:
        # Compared one by one: a list of them would have to be copied to the device, which a captured graph cannot.
        wanted_BN = torch.zeros_like(counts_BN)
        for one in chosen.classes:
            wanted_BN |= labels_BN == one
        counts_BN &= wanted_BN
    key_BK, row_BK = best_of(scores_BN, counts_BN, min(PLACES, scores_BN.shape[1]))
    boxes_BK4 = cxcywh_to_xyxy(predictions[..., :4].gather(1, row_BK[..., None].expand(-1, -1, 4)))
    return Candidates(boxes_BK4, scores_BN.gather(1, row_BK), labels_BN.gather(1, row_BK), (key_BK > 0).sum(1))


def _by_kernels(raw: Sequence[Tensor], model: RawMapReader, chosen: Thresholds) -> Candidates:
    from yolofast.detect import _candidates_kernel as kernels

    layout, device, batch = model.layout, raw[0].device, len(raw[0])
    rows = [one.shape[1] * one.shape[2] * one.shape[3] for one in raw]
    total, block = sum(rows), power_of_two(layout.nc)
    high = max(_NUMBERS // block, 16)
    wanted = torch.zeros(layout.nc, dtype=torch.int32, device=device)
    for number in chosen.classes or ():
        wanted[number].fill_(1)
    scores = torch.empty((batch, total), device=device)
    labels = torch.empty((batch, total), dtype=torch.int32, device=device)
    boxes = torch.empty((batch, total, 4), device=device)
    first = 0
    for level, (one, count, stride) in enumerate(zip(raw, rows, layout.strides, strict=True)):
        _, anchors, height, width, _ = one.shape
        kernels.score_kernel[(-(-count // high), batch)](
            one, model.anchors_px[level].contiguous(), wanted, scores, labels, boxes,
            total, first, height, width, *one.stride()[:4], chosen.conf, float(stride), LARGEST_LOG_SIZE,
            ANCHORS=anchors, CLASSES=layout.nc, POINTS=layout.kind == "point", CHOOSES=chosen.classes is not None,
            ROWS=high, BLOCK=block, enable_fp_fusion=False,
        )  # fmt: skip
        first += count
    keys = torch.empty((batch, total), dtype=torch.int64, device=device)
    entered = torch.empty(batch, dtype=torch.int32, device=device)
    most = min(PLACES, total)
    found = Candidates(
        torch.empty((batch, most, 4), device=device),
        torch.empty((batch, most), device=device),
        torch.empty((batch, most), dtype=torch.int64, device=device),
        torch.empty(batch, dtype=torch.int64, device=device),
    )
    kernels.choose_kernel[(batch,)](
        scores, keys, entered, found.counts, total, most, CHUNKS=-(-total // _CHUNK), BLOCK=_CHUNK, num_warps=16
    )
    mine = 64 if batch <= _FEW_IMAGES else 256
    kernels.rank_kernel[(-(-total // mine), batch)](
        keys, entered, scores, labels, boxes, found.scores, found.labels, found.boxes, total, most,
        MINE=mine, OTHERS=128,
    )  # fmt: skip
    return found


def detections_in_rows(candidates: Candidates, pictures: Pictures, chosen: Thresholds) -> Tensor:
    """`[B, most, 6]`: x1, y1, x2, y2 in pixels of the pictures, score, class; rows of zeros are none. Never waits."""
    most = chosen.max_detections
    kept_BS, count_B = greedy_suppression(candidates, chosen.iou, agnostic=chosen.agnostic, most=most)
    if kernels_for(candidates.boxes):
        from yolofast.detect import _candidates_kernel as kernels

        (batch, places), found = candidates.labels.shape, candidates.boxes.new_empty((len(kept_BS), most, 6))
        kernels.rows_kernel[(batch, -(-most // _ROWS))](
            candidates.boxes, candidates.scores, candidates.labels, kept_BS.contiguous(), count_B,
            pictures.sizes, pictures.scales, found, places, most, BLOCK=_ROWS, enable_fp_fusion=False,
        )  # fmt: skip
        return found
    used_BS = torch.arange(most, device=kept_BS.device) < count_B[:, None]
    boxes_BS4 = candidates.boxes.gather(1, kept_BS[..., None].expand(-1, -1, 4))
    pads_B4 = pictures.sizes[:, 4:].repeat(1, 2)[:, None]
    scales_B4, own_B4 = pictures.scales.repeat(1, 2)[:, None], pictures.sizes[:, :2].repeat(1, 2)[:, None]
    boxes_BS4 = ((boxes_BS4 - pads_B4) * scales_B4).clamp(min=0).minimum(own_B4)
    scores_BS, labels_BS = candidates.scores.gather(1, kept_BS), candidates.labels.gather(1, kept_BS)
    rows = torch.cat((boxes_BS4, scores_BS[..., None], labels_BS[..., None].float()), dim=-1)
    return torch.where(used_BS[..., None], rows, 0.0)
