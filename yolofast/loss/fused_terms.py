"""YOLOv7's terms and their gradient in three kernels per level, for a GPU without waiting for a compiler.

As written (`yolov7_loss.py`) they are hundreds of small kernels, which take longer than their work. The slopes of box
and class terms are found together with the terms; the gradient of a map is then written in one pass over it.
Numbers are the same up to the order of sums. Kinds of heads and losses with other formulas are computed as written.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from yolofast.boxes import EPS
from yolofast.fused.norm_act import power_of_two
from yolofast.loss.criterion import LossSettings
from yolofast.ranks import counts_are_shared, per_rank
from yolofast.raw_maps import RowReader
from yolofast.structures import Assignment, Targets

_SLOTS, _CELLS, _NUMBERS = 32, 512, 1024
"""Of a program."""
_WIDEST = 64


def can_be_fused(raw: Sequence[Tensor], reader: RowReader, settings: LossSettings) -> bool:
    return (
        all(_is_readable(one) for one in raw)
        and not reader.bins
        and reader.score_channels is None
        and settings.fl_gamma == 0
        and settings.cls_gr == 0
    )


def _is_readable(raw: Tensor) -> bool:
    return _places(raw) is not None


def _places(raw: Tensor) -> tuple[int, int] | None:
    """How many anchors a place in memory has, and the numbers from one place to the next."""
    _, anchors, height, width, channels = raw.shape
    pitch = raw.stride(3)
    if raw.stride() == (height * width * pitch, channels, width * pitch, pitch, 1) and pitch >= anchors * channels:
        return anchors, pitch
    return (1, channels) if raw.is_contiguous() else None


def fused_terms(
    raw: Sequence[Tensor], assignment: Sequence[Assignment], targets: Targets, anchors_LA2: Tensor,
    settings: LossSettings, reader: RowReader, *, best_overlap: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The box term, objectness by level, the class term."""
    positives = per_rank(torch.stack([slots.positive.sum() for slots in assignment])).float()
    shared = counts_are_shared()
    how = settings, assignment, targets, anchors_LA2.contiguous(), positives, reader.objectness, best_overlap, shared
    box, objectness, classes = _Terms.apply(how, *raw)  # type: ignore[no-untyped-call]
    if shared:
        # Filled on the device: a captured graph cannot copy from the host.
        cells = torch.stack([objectness.new_full((), float(one[..., 0].numel())) for one in raw])
        objectness = objectness / per_rank(cells)
    return box, objectness, classes


class _Terms(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: Any, *raw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        from yolofast.loss import _terms_kernel as kernels

        settings, assignment, targets, anchors, positives, first, best, shared = how
        images, slots, levels = len(raw[0]), assignment[0].cell.shape[1], len(raw)
        channels, device = raw[0].shape[-1], raw[0].device
        cells = [one[0, ..., 0].numel() for one in raw]
        blocks = [-(-count // _CELLS) for count in cells]
        head = torch.full((images * sum(cells),), -1, dtype=torch.int32, device=device)
        heads = torch.split(head, [images * count for count in cells])
        following = torch.empty(levels, images * slots, dtype=torch.int32, device=device)
        slopes = torch.empty(levels, images * slots, channels, device=device)
        terms = torch.empty(levels, 2, images * slots, device=device)
        quality = torch.empty(levels, images * slots, device=device)
        sums = torch.zeros(levels, images * max(blocks), device=device)
        aims = torch.split(torch.empty_like(head, dtype=torch.float32), [images * count for count in cells])
        boxes, labels = targets.boxes.contiguous(), targets.labels.contiguous()
        for level, (one, slot) in enumerate(zip(raw, assignment, strict=True)):
            _, count, height, width, _ = one.shape
            stride = one.stride()
            kernels.slots_kernel[(images, -(-slots // _SLOTS))](
                one, slot.cell.contiguous(), slot.target.contiguous(), _bits(slot.positive), boxes, labels, anchors,
                positives, terms[level], quality[level], slopes[level], heads[level], following[level],
                slots, level, count, boxes.shape[1], height, width, *stride,
                settings.label_smoothing / 2, settings.cls_pw,
                FIRST=first, CLASSES=channels - first - 1, EPS=EPS, BLOCK=_SLOTS,
                BLOCK_C=min(_WIDEST, power_of_two(channels - first - 1)), num_warps=4,
            )  # fmt: skip
            value = quality[level] if slot.quality is None else slot.quality.contiguous()
            kernels.objectness_kernel[(images, blocks[level])](
                one, heads[level], following[level], value, _bits(slot.sets_objectness), aims[level], sums[level],
                cells[level], height * width, width, *stride, settings.gr, settings.obj_pw,
                1.0 if shared else 1.0 / one[..., 0].numel(), FIRST=first, BEST=best, BLOCK=_CELLS, num_warps=4,
            )  # fmt: skip
        ctx.save_for_backward(*raw)
        ctx.found = heads, following, slopes, aims
        ctx.how = first, settings.obj_pw, shared, cells
        box, classes = terms.sum((0, 2)).unbind()
        return box, sums.sum(1), classes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, box: Tensor, objectness: Tensor, classes: Tensor) -> tuple[Tensor | None, ...]:
        from yolofast.loss import _terms_kernel as kernels

        heads, following, slopes, aims = ctx.found
        first, weight, shared, cells = ctx.how
        gradients = []
        for level, raw in enumerate(ctx.saved_tensors):
            _, _, height, width, channels = raw.shape
            places = _places(raw)
            assert places is not None
            per_place, pitch = places
            cells_of_all = raw[..., 0].numel()
            memory = torch.empty(cells_of_all // per_place * pitch, dtype=raw.dtype, device=raw.device)
            kernels.gradient_kernel[(-(-memory.numel() // _NUMBERS),)](
                raw, memory, heads[level], following[level], slopes[level], aims[level],
                box, objectness[level], classes, memory.numel(), cells[level], height * width, weight,
                1.0 if shared else 1.0 / cells_of_all,
                PER_PLACE=per_place, PITCH=pitch, FIRST=first, CHANNELS=channels, BLOCK=_NUMBERS, num_warps=4,
            )  # fmt: skip
            gradient = memory.as_strided(raw.shape, raw.stride())
            gradients.append(gradient)
        return None, *gradients


def _bits(flags: Tensor) -> Tensor:
    return flags.contiguous().view(torch.uint8)
