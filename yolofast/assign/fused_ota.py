"""OTA's candidates, costs and choice in a few kernels, for a GPU without waiting for a compiler.

As written (`ota.py`) they are hundreds of small kernels. The choice is the same, but for costs and overlaps that
rounding decides: sums over classes are taken in another order.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from yolofast.assign.cells import Head, some_images_at_a_time
from yolofast.fused.norm_act import power_of_two
from yolofast.structures import Assignment, Targets, level_shapes

_NEIGHBOURS = 5
_COLUMNS, _SLOTS, _OTHERS = 64, 32, 64
"""Of a program."""
_WIDEST = 64
_LONGEST_ROW = 16_384
"""Columns that one program compares; beyond it registers do not suffice."""


def can_be_fused(raw: Sequence[Tensor], targets: Targets, head: Head) -> bool:
    columns = len(raw) * _NEIGHBOURS * raw[0].shape[1] * targets.boxes.shape[1]
    plain = not head.reader.bins and head.reader.score_channels is None and raw[0].dtype is not torch.float64
    return plain and columns <= _LONGEST_ROW


def fused_candidates(
    targets: Targets, head: Head, shapes: Sequence[tuple[int, int]], raw: Sequence[Tensor] | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The cell of each column, -1 where it is no candidate; with maps the predicted boxes and costs of classes, too."""
    from yolofast.assign import _ota_kernel as kernels

    anchors_LA2 = head.anchors_in_cells().contiguous()
    (levels, anchors, _), (images, boxes) = anchors_LA2.shape, targets.labels.shape
    of_level, device = _NEIGHBOURS * anchors * boxes, targets.boxes.device
    columns, classes = levels * of_level, 0 if raw is None else raw[0].shape[-1] - 5
    cell = torch.empty(images, columns, dtype=torch.int32, device=device)
    predicted = torch.empty(images, 0 if raw is None else columns, 4, device=device)
    scores = torch.empty(images, 0 if raw is None else columns, classes + 1, device=device)
    once = raw is not None and not head.faithful
    grid = images, -(-of_level // _COLUMNS)
    for level, (height, width) in enumerate(shapes):
        count = anchors * height * width
        first = torch.full((images, count) if once else (1,), columns, dtype=torch.int32, device=device)
        one = predicted if raw is None else raw[level]
        kernels.candidates_kernel[grid](
            one, targets.boxes.contiguous(), targets.labels.contiguous(), _bits(targets.valid), anchors_LA2,
            cell, predicted, scores, first, level, anchors, boxes, columns, height, width, head.layout.strides[level],
            head.reach, head.anchor_t, *((0,) * 5 if raw is None else one.stride()),
            CLASSES=classes, FAITHFUL=head.faithful, WITH_SCORES=raw is not None, BLOCK=_COLUMNS,
            BLOCK_C=min(_WIDEST, power_of_two(classes)), num_warps=4,
        )  # fmt: skip
        if once:
            kernels.once_kernel[grid](cell, first, columns, of_level, level * of_level, count, BLOCK=_COLUMNS)
    return cell, predicted, scores


def fused_ota(raw: Sequence[Tensor], targets: Targets, head: Head) -> list[Assignment]:
    from yolofast.assign import _ota_kernel as kernels

    shapes, strides = level_shapes(raw), head.layout.strides
    cell, predicted, scores = fused_candidates(targets, head, shapes, raw)
    (images, boxes), columns, levels = targets.labels.shape, cell.shape[1], len(raw)
    topk = min(head.topk, columns)
    slots, block = boxes * topk, power_of_two(columns)
    height, width = shapes[0][0] * strides[0], shapes[0][1] * strides[0]
    real, truth, labels = _bits(targets.valid), targets.boxes.contiguous(), targets.labels.contiguous()
    fewest = min(one[0, ..., 0].numel() for one in raw)

    def match(at: slice) -> tuple[Tensor, ...]:
        some = len(real[at])
        cost = torch.empty(some, boxes, columns, device=cell.device)
        chosen = torch.empty(some, slots, dtype=torch.int32, device=cell.device)
        kernels.choose_kernel[(some * boxes,)](
            truth[at], labels[at], real[at], cell[at], predicted[at], scores[at], cost, chosen,
            boxes, columns, height if head.faithful else width, height,
            CLASSES=scores.shape[-1] - 1, TOPK=topk, BLOCK=block, num_warps=max(4, min(16, block // 512)),
        )  # fmt: skip
        found = torch.empty(2, levels, some, slots, dtype=torch.int64, device=cell.device)
        flags = torch.empty(2, levels, some, slots, dtype=torch.bool, device=cell.device)
        kernels.settle_kernel[(some, -(-slots // _SLOTS))](
            chosen, cost, real[at], cell[at], found[0], found[1], _bits(flags[0]), _bits(flags[1]),
            columns, columns // levels, fewest, G=boxes,
            LEVELS=levels, TOPK=topk, EVERY=not head.faithful, BLOCK=_SLOTS, OTHERS=_OTHERS, num_warps=4,
        )  # fmt: skip
        return found.transpose(0, 2), flags.transpose(0, 2)

    found, flags = some_images_at_a_time(match, images, boxes * columns)
    return [
        Assignment(found[:, level, 0], found[:, level, 1], flags[:, level, 0], flags[:, level, 1])
        for level in range(levels)
    ]


def _bits(flags: Tensor) -> Tensor:
    return flags.contiguous().view(torch.uint8)
