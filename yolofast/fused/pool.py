"""Max-pools that remember in a byte which number was the largest; torch keeps eight bytes for it. And upsampling.

Pools of 2 × 2 halve a map, those of an odd window keep its size. All read maps where they are, as parts of wider ones
too, and write theirs to their places in joint maps (`concat`).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from yolofast.fused.concat import ConcatSlot, new_map, room_for
from yolofast.fused.fork import few_gradients, in_steps, padded
from yolofast.fused.norm_act import power_of_two
from yolofast.precision import NEW_KERNELS

_NUMBERS, _NUMBERS_OF_WINDOWS = 4096, 1024
"""Of a program."""
_WIDEST = 64
_LARGEST_WINDOW = 13
"""Its places are counted in a byte, and one is looked at after the other."""


class _Halve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slot: ConcatSlot | None) -> Tensor:
        y, ctx.which = _halved(x, slot, remembers=True)
        ctx.shape, ctx.more = x.shape, []
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        given, how = _gradients(ctx, dy)
        dx = new_map(dy, *ctx.shape[1:])
        _launch("pool_back_kernel", dy.shape, _NUMBERS, *given, ctx.which, dx, **how)
        return dx, None


class _Window(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, window: int, slot: ConcatSlot | None) -> Tensor:
        y, ctx.which = _in_windows(x, window, slot, remembers=True)
        ctx.window, ctx.more = window, []
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None]:
        given, how = _gradients(ctx, dy)
        dx = new_map(dy, *dy.shape[1:])
        _launch(
            "window_back_kernel", dy.shape, _NUMBERS_OF_WINDOWS, *given, ctx.which, dx, K=ctx.window, **how
        )  # fmt: skip
        return dx, None, None


class _Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slot: ConcatSlot | None) -> Tensor:
        ctx.shape, ctx.more = x.shape, []
        y, also = room_for(slot, x, x.shape[1], 2 * x.shape[2], 2 * x.shape[3])
        maps, how = _maps(x, y, also)
        _launch("double_kernel", x.shape, _NUMBERS, *maps, **how)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        given, how = _gradients(ctx, dy)
        dx = new_map(dy, *ctx.shape[1:])
        _launch("double_back_kernel", ctx.shape, _NUMBERS, *given, dx, **how)
        return dx, None


def _halved(x: Tensor, slot: ConcatSlot | None, *, remembers: bool) -> tuple[Tensor, Tensor]:
    """And which of the four it was; something else if nobody will ask."""
    y, also = room_for(slot, x, x.shape[1], x.shape[2] // 2, x.shape[3] // 2)
    maps, how = _maps(x, y, also)
    which = _which(y) if remembers else y
    _launch("pool_kernel", y.shape, _NUMBERS, *maps, which, REMEMBERS=remembers, **how)
    return y, which


def _in_windows(x: Tensor, window: int, slot: ConcatSlot | None, *, remembers: bool) -> tuple[Tensor, Tensor]:
    y, also = room_for(slot, x, *x.shape[1:])
    maps, how = _maps(x, y, also)
    which = _which(y) if remembers else y
    _launch("window_kernel", x.shape, _NUMBERS_OF_WINDOWS, *maps, which, K=window, REMEMBERS=remembers, **how)
    return y, which


def _which(y: Tensor) -> Tensor:
    """Room for the number of the largest, by itself."""
    images, channels, height, width = y.shape
    return y.new_empty((images, height, width, channels), dtype=torch.uint8).permute(0, 3, 1, 2)


def _maps(x: Tensor, y: Tensor, also: Tensor | None) -> tuple[list[Any], dict[str, int]]:
    maps, unit = in_steps(x, y, y if also is None else also)
    return [*maps, int(also is not None)], {"UNIT": unit}


def _gradients(ctx: Any, dy: Tensor) -> tuple[list[Any], dict[str, int]]:
    given = few_gradients(ctx, dy)
    maps, unit = in_steps(*padded(given))
    return [*maps, len(given)], {"UNIT": unit, "SEVERAL": len(given) > 1}


def _launch(name: str, shape: tuple[int, ...], numbers: int, *given: Any, **how: int) -> None:
    """`shape` is that of the smaller map."""
    from yolofast.fused import _pool_kernel as kernels

    images, channels, height, width = shape
    block = min(_WIDEST, power_of_two(channels))
    rows, places = numbers // block, images * height * width
    grid = -(-places // rows), -(-channels // block)
    shapes = {"C": channels, "ROWS": rows, "BLOCK_C": block}
    getattr(kernels, name)[grid](*given, places, height, width, **shapes, **how, num_warps=4)


def max_pool(x: Tensor, window: int, stride: int, slot: ConcatSlot | None = None) -> Tensor:
    """Of windows of 2 that do not overlap and of odd ones around every place; others as torch computes them.

    Without a gradient torch would remember too, in eight bytes again.
    """
    learns = x.requires_grad and torch.is_grad_enabled()
    ours = x.stride(1) == 1 and (learns or NEW_KERNELS)
    if ours and window == stride == 2 and x.shape[2] % 2 == x.shape[3] % 2 == 0:
        return _Halve.apply(x, slot) if learns else _halved(x, slot, remembers=False)[0]  # type: ignore[no-untyped-call]
    if ours and stride == 1 and window % 2 and window <= _LARGEST_WINDOW:
        if learns:
            return _Window.apply(x, window, slot)  # type: ignore[no-untyped-call, no-any-return]
        return _in_windows(x, window, slot, remembers=False)[0]
    return F.max_pool2d(x, window, stride, window // 2 if stride == 1 else 0)


def doubled(x: Tensor, slot: ConcatSlot | None = None) -> Tensor:
    """Every place four times."""
    y: Tensor = _Double.apply(x, slot)  # type: ignore[no-untyped-call]
    return y
