"""TrackSSM's loss and its slopes in one kernel: as `loss_of` in plain torch, which it is tested against."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

try:
    from yolofast.motion import _loss_kernel as kernels
except ImportError:  # Triton is not there on every platform
    kernels = None  # type: ignore[assignment]

_BLOCK = 128


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, boxes_SB4: Tensor, last_B4: Tensor, truth_B4: Tensor, smallest: float) -> Tensor:
        (stages, count, _), boxes_SB4 = boxes_SB4.shape, boxes_SB4.contiguous()
        programs = -(-count // _BLOCK)
        sums, slopes = boxes_SB4.new_empty(2, stages * programs), boxes_SB4.new_empty(2, *boxes_SB4.shape)
        kernels.loss_kernel[(programs, stages)](
            boxes_SB4, last_B4, last_B4.stride(0), truth_B4.contiguous(), sums, slopes, count,
            STAGES=stages, BLOCK=_BLOCK, SMALLEST=smallest,
        )  # fmt: skip
        ctx.save_for_backward(slopes)
        return sums.sum(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dterms_2: Tensor) -> tuple[Any, ...]:
        (slopes,) = ctx.saved_tensors
        return (dterms_2 @ slopes.flatten(1)).view(slopes.shape[1:]), None, None, None


def terms_of(boxes_SB4: Tensor, last_B4: Tensor, truth_B4: Tensor, smallest: float) -> Tensor:
    """Smooth L1, and 1 - GIoU: [2]."""
    found: Tensor = _Loss.apply(boxes_SB4, last_B4, truth_B4, smallest)  # type: ignore[no-untyped-call]
    return found
