"""BatchNorm over a batch and the activation behind it as one kernel, forwards and backwards.

As written they are a reduction and two passes over memory forwards, a reduction and three passes backwards, in seven
kernels. For maps of other layouts or devices, and where a layer's statistics stay, the modules compute as written.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from yolofast.fused.concat import ConcatSlot, room_for
from yolofast.fused.fork import few_gradients, handed_on, in_steps, padded, row_stride
from yolofast.precision import NEW_KERNELS, TRITON_IS_INTERPRETED

PLAIN, SILU, LEAKY = 0, 1, 2
_WARPS = 4
_PROGRAMS_PER_SM = 2
_FORWARD_TILE, _BACKWARD_TILE = 8192, 4096
"""Numbers a program holds at a time."""
_WIDEST = 64
"""Channels of a program: rows are read in pieces of 128 bytes."""
_PARTIAL_SUMS = 8192
"""Numbers every program adds up after it has waited."""


class Tiling(NamedTuple):
    groups: int
    parts: int
    each: int
    """Rows of a program."""
    rows: int
    """Of a tile."""
    channels: int
    """Of a program."""


@cache
def tiling(rows: int, channels: int, tile: int, programs: int) -> Tiling:
    block = min(power_of_two(channels), _WIDEST if channels > _WIDEST else _WIDEST // 2)
    groups, height = -(-channels // block), tile // block
    most = min(max(programs // groups, 1), _PARTIAL_SUMS // block)
    each = -(-rows // (height * most)) * height
    return Tiling(groups, -(-rows // each), each, height, block)


def power_of_two(number: int) -> int:
    """The smallest that is at least as large."""
    return 1 << (max(number, 1) - 1).bit_length()


@cache
def _programs(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count * _PROGRAMS_PER_SM


@cache
def _counters(device: torch.device, parts: int, groups: int) -> Tensor:
    """Of programs that have arrived. Launches that share them have as many programs and come one after the other."""
    return torch.zeros(groups, dtype=torch.int64, device=device)


def _launch(kernel: Any, shape: Tiling, *given: Any, **constants: Any) -> None:
    counts = {"PARTS": shape.parts, "ROWS": shape.rows, "BLOCK_C": shape.channels}
    constants |= counts | {"BLOCK_P": power_of_two(shape.parts), "ONE_TILE": shape.each == shape.rows}
    grid = shape.groups, shape.parts
    if TRITON_IS_INTERPRETED:
        for phase in (1, 2):
            kernel[grid](*given, **constants, PHASE=phase)
    else:
        kernel[grid](*given, **constants, PHASE=0, num_warps=_WARPS, launch_cooperative_grid=True)


class _NormAct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, y: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
        eps: float, momentum: float, act: int, slope: float, slot: ConcatSlot | None, plus: Tensor | None,
        gradient_slot: ConcatSlot | None,
    ) -> Tensor:  # fmt: skip
        from yolofast.fused import _norm_kernel as kernels

        images, channels, height, width = y.shape
        rows, programs = images * height * width, 4 if TRITON_IS_INTERPRETED else _programs(y.device.index)
        shape = tiling(rows, channels, _FORWARD_TILE, programs)
        z, also = room_for(slot, y, channels, height, width)
        numbers = torch.empty(2 + 2 * shape.parts, channels, device=y.device)
        mean, rstd = numbers[0], numbers[1]
        maps, unit = in_steps(y, z, z if also is None else also, z if plus is None else plus)
        _launch(
            kernels.norm_act_kernel, shape, *maps, int(also is not None), weight, bias, mean, rstd,
            mean if running_mean is None else running_mean, rstd if running_var is None else running_var,
            numbers[2:], _counters(y.device, shape.parts, shape.groups), rows, shape.each, eps, momentum, slope,
            C=channels, UNIT=unit, ACT=act, TRACKS=running_mean is not None, PLUS=plus is not None,
        )  # fmt: skip
        ctx.save_for_backward(y, weight, bias, mean, rstd)
        ctx.act, ctx.slope, ctx.gradient_slot, ctx.more = act, slope, gradient_slot, []
        ctx.adds, ctx.of_plus = plus is not None, None if plus is None else plus.grad_fn
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor | None, ...]:
        from yolofast.fused import _norm_kernel as kernels

        y, weight, bias, mean, rstd = ctx.saved_tensors
        images, channels, height, width = y.shape
        rows, programs = images * height * width, 4 if TRITON_IS_INTERPRETED else _programs(y.device.index)
        shape = tiling(rows, channels, _BACKWARD_TILE, programs)
        gradients = few_gradients(ctx, dz)
        dy, _ = room_for(ctx.gradient_slot, y, channels, height, width)
        numbers = torch.empty(2 + 2 * shape.parts, channels, device=y.device)
        dweight, dbias = numbers[0], numbers[1]
        maps, unit = in_steps(y, dy, *padded(gradients))
        _launch(
            kernels.norm_act_back_kernel, shape, *maps, len(gradients), weight, bias, mean, rstd, dweight, dbias,
            numbers[2:], _counters(y.device, shape.parts, shape.groups), rows, shape.each, ctx.slope,
            C=channels, UNIT=unit, ACT=ctx.act, SEVERAL=len(gradients) > 1,
        )  # fmt: skip
        dplus = handed_on(ctx.of_plus, gradients) if ctx.adds else None
        return dy, dweight, dbias, *[None] * 7, dplus, None


def norm_act(
    y: Tensor, norm: nn.Module, act: nn.Module, slot: ConcatSlot | None = None, plus: Tensor | None = None,
    gradient_slot: ConcatSlot | None = None,
) -> Tensor:  # fmt: skip
    """`act(norm(y)) + plus`, written to its place in a joint map, if it has one; so is the gradient of `y`."""
    if not _fits(y, norm):
        z: Tensor = act(norm(y))
        return z if plus is None else plus + z
    assert isinstance(norm, nn.BatchNorm2d) and norm.momentum is not None
    kind, slope = activation_kind(act)
    if kind is None:
        kind, rest, slot = PLAIN, act, None
    else:
        rest = None
    after = None if NEW_KERNELS and rest is None and (plus is None or plus.dtype == y.dtype) else plus
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    z = _NormAct.apply(  # type: ignore[no-untyped-call]
        y, norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.eps, norm.momentum, kind, slope,
        slot if after is None else None, plus if after is None else None, gradient_slot,
    )  # fmt: skip
    z = z if rest is None else rest(z)
    return z if after is None else after + z


def _fits(y: Tensor, norm: nn.Module) -> bool:
    return (
        type(norm) is nn.BatchNorm2d
        and norm.training
        and norm.affine
        and norm.momentum is not None
        and row_stride(y) is not None
        and y.numel() > y.shape[1]
    )


def activation_kind(act: nn.Module) -> tuple[int | None, float]:
    if isinstance(act, nn.SiLU):
        return SILU, 0.0
    if isinstance(act, nn.LeakyReLU):
        return LEAKY, act.negative_slope
    return (PLAIN if isinstance(act, nn.Identity) else None), 0.0
