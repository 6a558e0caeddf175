"""Max-pools that remember in a byte which number was the largest; torch keeps eight bytes for it.

Those of 2 × 2 halve a map; those of an odd window keep its size.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from yolofast.fused.norm_act import power_of_two, rows_of

_NUMBERS, _NUMBERS_OF_WINDOWS = 4096, 1024
"""Of a program."""
_WIDEST = 64
_LARGEST_WINDOW = 13
"""Its places are counted in a byte, and one is looked at after the other."""


class _Halve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        y, ctx.which = _halved(x, remembers=True)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        dy, stride = rows_of(dy)
        dx = _map_like(dy, *ctx.shape[2:])
        _launch("pool_back_kernel", dy.shape, _NUMBERS, dy, ctx.which, dx, stride)
        return dx


class _Window(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, window: int) -> Tensor:
        ctx.window = window
        y, ctx.which = _in_windows(x, window, remembers=True)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        dy, stride = rows_of(dy)
        dx = _map_like(dy, *dy.shape[2:])
        _launch("window_back_kernel", dy.shape, _NUMBERS_OF_WINDOWS, dy, ctx.which, dx, stride, K=ctx.window)
        return dx, None


def _map_like(x: Tensor, height: int, width: int) -> Tensor:
    return x.new_empty((len(x), height, width, x.shape[1])).permute(0, 3, 1, 2)


def _launch(
    name: str, shape: torch.Size, numbers: int, first: Tensor, second: Tensor, third: Tensor, stride: int, **how: int
) -> None:
    from yolofast.fused import _pool_kernel as kernels

    images, channels, height, width = shape
    block = min(_WIDEST, power_of_two(channels))
    rows, places = numbers // block, images * height * width
    grid = -(-places // rows), -(-channels // block)
    shapes = {"C": channels, "ROWS": rows, "BLOCK_C": block}
    getattr(kernels, name)[grid](first, second, third, places, height, width, stride, **shapes, **how, num_warps=4)


def _halved(x: Tensor, *, remembers: bool) -> tuple[Tensor, Tensor]:
    """And which of the four it was; something else if nobody will ask."""
    x, stride = rows_of(x)
    y = _map_like(x, x.shape[2] // 2, x.shape[3] // 2)
    which = torch.empty_like(y, dtype=torch.uint8) if remembers else y
    _launch("pool_kernel", y.shape, _NUMBERS, x, y, which, stride, REMEMBERS=remembers)
    return y, which


def _in_windows(x: Tensor, window: int, *, remembers: bool) -> tuple[Tensor, Tensor]:
    x, stride = rows_of(x)
    y = _map_like(x, *x.shape[2:])
    which = torch.empty_like(y, dtype=torch.uint8) if remembers else y
    _launch("window_kernel", y.shape, _NUMBERS_OF_WINDOWS, x, y, which, stride, K=window, REMEMBERS=remembers)
    return y, which


def max_pool(x: Tensor, window: int, stride: int) -> Tensor:
    """Of windows of 2 that do not overlap and of odd ones around every place; others as torch computes them.

    Without a gradient torch would remember too, in eight bytes again.
    """
    learns = x.requires_grad and torch.is_grad_enabled()
    if x.stride(1) == 1 and window == stride == 2 and x.shape[2] % 2 == x.shape[3] % 2 == 0:
        return _Halve.apply(x) if learns else _halved(x, remembers=False)[0]  # type: ignore[no-untyped-call]
    if x.stride(1) == 1 and stride == 1 and window % 2 and window <= _LARGEST_WINDOW:
        return _Window.apply(x, window) if learns else _in_windows(x, window, remembers=False)[0]  # type: ignore[no-untyped-call]
    return F.max_pool2d(x, window, stride, window // 2 if stride == 1 else 0)
