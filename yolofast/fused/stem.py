"""The first convolution: three channels are too few for the kernels of cuDNN, which pad them to eight in copies.

Here the numbers around a place are gathered where they are multiplied. No gradient for the image is computed.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from yolofast.fused.norm_act import power_of_two

_CHANNELS, _WIDEST = 3, 128
_PLACES, _RUN = 128, 16
"""Places of a block, and how many blocks of them one program sums up for the weights."""


class _Stem(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int) -> Tensor:
        from yolofast.fused import _stem_kernel as kernels

        images, _, height, width = x.shape
        outputs = len(weight)
        rows, columns = -(-height // stride), -(-width // stride)
        x = x.to(weight.dtype).contiguous(memory_format=torch.channels_last)
        y = x.new_empty((images, rows, columns, outputs)).permute(0, 3, 1, 2)
        ctx.save_for_backward(x)
        ctx.weight, ctx.stride = weight.shape, stride
        flat, places = weight.permute(0, 2, 3, 1).contiguous(), images * rows * columns
        kernels.stem_kernel[(-(-places // _PLACES),)](
            x, flat, y, places, height, width, rows, columns, stride, **_shapes(weight.shape), num_warps=4
        )
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        from yolofast.fused import _stem_kernel as kernels

        (x,) = ctx.saved_tensors
        dy = dy.contiguous(memory_format=torch.channels_last)
        images, outputs, rows, columns = dy.shape
        _, channels, window, _ = ctx.weight
        places, each = images * rows * columns, _PLACES * _RUN
        parts = torch.empty(-(-places // each), outputs, window, window, channels, device=x.device)
        kernels.stem_weight_kernel[(len(parts),)](
            x, dy, parts, places, *x.shape[2:], rows, columns, ctx.stride, each,
            **_shapes(ctx.weight), TURNS=_RUN, num_warps=4,
        )  # fmt: skip
        return None, parts.sum(0).permute(0, 3, 1, 2).to(dy.dtype), None


def _shapes(weight: tuple[int, ...]) -> dict[str, int]:
    outputs, channels, window, _ = weight
    numbers = window * window * channels
    return {
        "K": window, "C": channels, "OUT": outputs, "NUMBERS": max(16, power_of_two(numbers)),
        "BLOCK": _PLACES, "BLOCK_OUT": max(16, power_of_two(outputs)),
    }  # fmt: skip


def convolution(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """Of images with the kernel, if there is one for them; of anything else as torch does it."""
    if x.shape[1] == _CHANNELS and _fits(conv, x):
        y: Tensor = _Stem.apply(x, conv.weight, conv.stride[0])  # type: ignore[no-untyped-call]
        return y
    return conv(x)  # type: ignore[no-any-return]


def _fits(conv: nn.Conv2d, x: Tensor) -> bool:
    window, stride = conv.kernel_size, conv.stride
    return (
        torch.is_grad_enabled()
        and not x.requires_grad
        and conv.weight.dtype in (torch.bfloat16, torch.float16)
        and conv.bias is None
        and conv.groups == 1
        and window in ((3, 3), (5, 5))
        and conv.padding == (window[0] // 2, window[0] // 2)
        and stride[0] == stride[1]
        and conv.dilation == (1, 1)
        and conv.out_channels <= _WIDEST
    )
