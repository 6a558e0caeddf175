"""BatchNorm over a batch and the activation behind it as one kernel, forwards and backwards.

As written they are a reduction and two passes over memory forwards, a reduction and three passes backwards, in seven
kernels. For maps of other layouts or devices, and where a layer's statistics stay, the modules compute as written.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from yolofast.precision import TRITON_IS_INTERPRETED

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
        eps: float, momentum: float, act: int, slope: float,
    ) -> Tensor:  # fmt: skip
        from yolofast.fused import _norm_kernel as kernels

        images, channels, height, width = y.shape
        rows, programs = images * height * width, 4 if TRITON_IS_INTERPRETED else _programs(y.device.index)
        shape = tiling(rows, channels, _FORWARD_TILE, programs)
        z = torch.empty_like(y)
        numbers = torch.empty(2 + 2 * shape.parts, channels, device=y.device)
        mean, rstd = numbers[0], numbers[1]
        _launch(
            kernels.norm_act_kernel, shape, y, z, channels, weight, bias, mean, rstd,
            mean if running_mean is None else running_mean, rstd if running_var is None else running_var,
            numbers[2:], _counters(y.device, shape.parts, shape.groups), rows, shape.each, eps, momentum, slope,
            C=channels, ACT=act, TRACKS=running_mean is not None,
        )  # fmt: skip
        ctx.save_for_backward(y, weight, bias, mean, rstd)
        ctx.act, ctx.slope = act, slope
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor | None, ...]:
        from yolofast.fused import _norm_kernel as kernels

        y, weight, bias, mean, rstd = ctx.saved_tensors
        images, channels, height, width = y.shape
        rows, programs = images * height * width, 4 if TRITON_IS_INTERPRETED else _programs(y.device.index)
        shape = tiling(rows, channels, _BACKWARD_TILE, programs)
        dz, stride = rows_of(dz)
        dy = torch.empty_like(y)
        numbers = torch.empty(2 + 2 * shape.parts, channels, device=y.device)
        dweight, dbias = numbers[0], numbers[1]
        _launch(
            kernels.norm_act_back_kernel, shape, y, dz, stride, dy, weight, bias, mean, rstd, dweight, dbias,
            numbers[2:], _counters(y.device, shape.parts, shape.groups), rows, shape.each, ctx.slope,
            C=channels, ACT=ctx.act,
        )  # fmt: skip
        return dy, dweight, dbias, None, None, None, None, None, None


def rows_of(dz: Tensor) -> tuple[Tensor, int]:
    """Where its rows lie evenly in memory they are read where they are, as some of the channels of a wider map."""
    _, _, height, width = dz.shape
    stride = dz.stride(3)
    if dz.stride() == (height * width * stride, 1, width * stride, stride):
        return dz, stride
    return dz.contiguous(memory_format=torch.channels_last), dz.shape[1]


def norm_act(y: Tensor, norm: nn.Module, act: nn.Module) -> Tensor:
    """`act(norm(y))`."""
    if not _fits(y, norm):
        return act(norm(y))  # type: ignore[no-any-return]
    assert isinstance(norm, nn.BatchNorm2d) and norm.momentum is not None
    kind, slope = activation_kind(act)
    if kind is None:
        kind, rest = PLAIN, act
    else:
        rest = None
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    z: Tensor = _NormAct.apply(  # type: ignore[no-untyped-call]
        y, norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.eps, norm.momentum, kind, slope
    )
    return z if rest is None else rest(z)


def _fits(y: Tensor, norm: nn.Module) -> bool:
    return (
        type(norm) is nn.BatchNorm2d
        and norm.training
        and norm.affine
        and norm.momentum is not None
        and y.is_contiguous(memory_format=torch.channels_last)
        and y.numel() > y.shape[1]
    )


def activation_kind(act: nn.Module) -> tuple[int | None, float]:
    if isinstance(act, nn.SiLU):
        return SILU, 0.0
    if isinstance(act, nn.LeakyReLU):
        return LEAKY, act.negative_slope
    return (PLAIN if isinstance(act, nn.Identity) else None), 0.0
