"""What the losses share: reading a raw map where a loss needs it, and binary cross-entropy with YOLOv7's options.

A loss reads the objectness of every cell, and whole rows at a few cells. Left to autograd, each of the two reads would
allocate a gradient as large as the map and add them up. Here both write into one, in the map's own memory order, which
saves most of a YOLO loss's memory traffic.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from yolofast.raw_maps import flat_index, is_cells_first, rows_at

_FOCAL_ALPHA = 0.25
_SMALLEST_ERROR = 1e-12


def objectness_and_rows(raw: Tensor, cell_BS: Tensor, objectness: int = 4) -> tuple[Tensor, Tensor]:
    """Objectness logits `[B, A, H, W]` of all cells and rows `[B, S, channels]` at some, with gradients."""
    result: tuple[Tensor, Tensor] = _ObjectnessAndRows.apply(raw, cell_BS, objectness)  # type: ignore[no-untyped-call]
    return result


class _ObjectnessAndRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, raw: Tensor, cell_BS: Tensor, objectness: int) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(cell_BS)
        ctx.shape, ctx.cells_first, ctx.objectness = raw.shape, is_cells_first(raw), objectness
        ctx.dtype = raw.dtype
        wide = torch.float64 if raw.dtype is torch.float64 else torch.float32
        # Real copies: where `.to` has nothing to do, torch.compile (2.11) drops the gradient of what it returns.
        return raw[..., objectness].to(wide, copy=True), rows_at(raw, cell_BS).to(wide, copy=True)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, objectness_grad: Tensor, rows_grad: Tensor) -> tuple[Tensor, None, None]:
        (cell_BS,) = ctx.saved_tensors
        batch, anchors, height, width, channels = ctx.shape
        if ctx.cells_first:
            objectness_grad = objectness_grad.permute(0, 2, 3, 1)
        flat = F.pad(objectness_grad.reshape(-1, 1), (ctx.objectness, channels - ctx.objectness - 1))
        index = flat_index(cell_BS, ctx.shape, ctx.cells_first)
        flat.index_add_(0, index.flatten(), rows_grad.flatten(0, 1))
        if ctx.cells_first:
            grad = flat.view(batch, height, width, anchors, channels).permute(0, 3, 1, 2, 4)
        else:
            grad = flat.view(ctx.shape)
        return grad.to(ctx.dtype), None, None


def bce(logits: Tensor, target: Tensor, positive_weight: float = 1.0, focal_gamma: float = 0.0) -> Tensor:
    """Element-wise. `positive_weight` scales the positive part; `focal_gamma` above 0 makes it focal loss."""
    weight = None if positive_weight == 1.0 else logits.new_full((), positive_weight)
    loss = F.binary_cross_entropy_with_logits(logits, target, pos_weight=weight, reduction="none")
    if focal_gamma > 0:
        probability = logits.sigmoid()
        right = target * probability + (1 - target) * (1 - probability)
        alpha = target * _FOCAL_ALPHA + (1 - target) * (1 - _FOCAL_ALPHA)
        # Below a power of 1 the slope at 0 is infinite, and a saturated prediction gets there.
        loss = loss * alpha * (1 - right).clamp(min=_SMALLEST_ERROR) ** focal_gamma
    return loss
