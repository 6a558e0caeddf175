"""The scans of TrackSSM as kernels: as `causal_conv`, `scan` and `scan_step` of `scan`, which they are tested
against (on a CPU with TRITON_INTERPRET=1). Plain torch writes 16 states per channel to memory at every step of the way
there and back; here they stay in registers.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

try:
    from yolofast.motion import _scan_kernel as kernels
except ImportError:  # Triton is not there on every platform
    kernels = None  # type: ignore[assignment]

_CONV_BLOCK, _CONV_EACH = 128, 8
_BLOCK, _EACH = 32, 16
"""Channels of a program; histories it goes back over."""
_WARPS = 1
"""More than one would wait for one another at every sum over channels."""


def is_available() -> bool:
    return kernels is not None


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_BTD: Tensor, weight_DK: Tensor, bias_D: Tensor) -> Tensor:
        x_BTD, weight_DK = _rows(x_BTD), weight_DK.contiguous()
        batch, rows, channels = x_BTD.shape
        y_BTD = torch.empty(batch, rows, channels, device=x_BTD.device)
        kernels.conv_kernel[(batch, channels // _CONV_BLOCK)](
            x_BTD, x_BTD.stride(1), weight_DK, bias_D, y_BTD, D=channels, T=rows, BLOCK=_CONV_BLOCK
        )
        ctx.save_for_backward(x_BTD, weight_DK, bias_D)
        return y_BTD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_BTD: Tensor) -> tuple[Tensor, ...]:
        x_BTD, weight_DK, bias_D = ctx.saved_tensors
        batch, rows, channels = x_BTD.shape
        programs = -(-batch // _CONV_EACH)
        dx_BTD = torch.empty(batch, rows, channels, device=x_BTD.device)
        dweights = dx_BTD.new_empty(programs, 5 * channels)
        kernels.conv_back_kernel[(programs, channels // _CONV_BLOCK)](
            x_BTD, x_BTD.stride(1), weight_DK, bias_D, dy_BTD.contiguous(), dx_BTD, dweights, batch,
            EACH=_CONV_EACH, D=channels, T=rows, BLOCK=_CONV_BLOCK,
        )  # fmt: skip
        dweight, dbias_D = dweights.sum(0).split_with_sizes((4 * channels, channels))
        return dx_BTD, dweight.view(weight_DK.shape), dbias_D


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, before_BDN: Tensor | None, keep: bool, x_BTD: Tensor, step_BTD: Tensor, gate_BTD: Tensor,
        write_BTN: Tensor, read_BTN: Tensor, bias_D: Tensor, log_DN: Tensor, skip_D: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        x_BTD, step_BTD, gate_BTD = x_BTD.contiguous(), step_BTD.contiguous(), _rows(gate_BTD)
        write_BTN, read_BTN = _rows(write_BTN), _rows(read_BTN)
        assert write_BTN.stride(1) == read_BTN.stride(1)
        batch, rows, channels = x_BTD.shape
        y_BTD = torch.empty_like(x_BTD)
        after_BDN = x_BTD.new_empty((batch, channels, 16) if keep else (0,))
        kernels.scan_kernel[(batch, channels // _BLOCK)](
            x_BTD, step_BTD, gate_BTD, gate_BTD.stride(1), write_BTN, read_BTN, write_BTN.stride(1),
            bias_D, log_DN, skip_D, x_BTD if before_BDN is None else before_BDN, y_BTD, after_BDN,
            HAS_STATE=before_BDN is not None, KEEP=keep, D=channels, T=rows, BLOCK=_BLOCK, num_warps=_WARPS,
        )  # fmt: skip
        ctx.save_for_backward(before_BDN, x_BTD, step_BTD, gate_BTD, write_BTN, read_BTN, bias_D, log_DN, skip_D)
        ctx.mark_non_differentiable(after_BDN)
        return y_BTD, after_BDN

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_BTD: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        before_BDN, x_BTD, step_BTD, gate_BTD, write_BTN, read_BTN, bias_D, log_DN, skip_D = ctx.saved_tensors
        batch, rows, channels = x_BTD.shape
        programs, blocks = -(-batch // _EACH), channels // _BLOCK
        dx_BTD, dstep_BTD, dgate_BTD = (torch.empty_like(x_BTD) for _ in range(3))
        dboth, dweights = x_BTD.new_empty(blocks, batch, rows, 32), x_BTD.new_empty(programs, 18 * channels)
        kernels.scan_back_kernel[(programs, blocks)](
            x_BTD, step_BTD, gate_BTD, gate_BTD.stride(1), write_BTN, read_BTN, write_BTN.stride(1),
            bias_D, log_DN, skip_D, x_BTD if before_BDN is None else before_BDN, dy_BTD.contiguous(),
            dx_BTD, dstep_BTD, dgate_BTD, dboth, dweights, batch,
            HAS_STATE=before_BDN is not None, EACH=_EACH, D=channels, T=rows, BLOCK=_BLOCK,
            num_warps=_WARPS,
        )  # fmt: skip
        dlog, dbias_D, dskip_D = dweights.sum(0).split_with_sizes((16 * channels, channels, channels))
        of_rows = dx_BTD, dstep_BTD, dgate_BTD, *dboth.sum(0).chunk(2, dim=-1)
        return None, None, *of_rows, dbias_D, dlog.view(log_DN.shape), dskip_D


def causal_conv(x_BTD: Tensor, weight_DK: Tensor, bias_D: Tensor | None) -> Tensor:
    found: Tensor = _Conv.apply(x_BTD, weight_DK, bias_D)  # type: ignore[no-untyped-call]
    return found


def scan(
    x_BTD: Tensor, step_BTD: Tensor, gate_BTD: Tensor, write_BTN: Tensor, read_BTN: Tensor,
    step_bias_D: Tensor, log_DN: Tensor, skip_D: Tensor,
) -> Tensor:  # fmt: skip
    found: Tensor = _Scan.apply(  # type: ignore[no-untyped-call]
        None, False, x_BTD, step_BTD, gate_BTD, write_BTN, read_BTN, step_bias_D, log_DN, skip_D
    )[0]
    return found


def scan_step(
    state_BDN: Tensor | None, x_BD: Tensor, step_BD: Tensor, gate_BD: Tensor, write_BN: Tensor, read_BN: Tensor,
    step_bias_D: Tensor, log_DN: Tensor, skip_D: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """No gradient goes through the state: it is handed on detached."""
    one_row = (one[:, None] for one in (x_BD, step_BD, gate_BD, write_BN, read_BN))
    given = (state_BDN, True, *one_row, step_bias_D, log_DN, skip_D)
    y_B1D, state_BDN = _Scan.apply(*given)  # type: ignore[no-untyped-call]
    return y_B1D.squeeze(1), state_BDN


def _rows(tensor_BTD: Tensor) -> Tensor:
    """As it is, if its rows lie evenly in memory: a part of the columns of a tensor is read where it is."""
    batch, rows, _ = tensor_BTD.shape
    even = tensor_BTD.stride(2) == 1 and (batch == 1 or tensor_BTD.stride(0) == rows * tensor_BTD.stride(1))
    return tensor_BTD if even else tensor_BTD.contiguous()
