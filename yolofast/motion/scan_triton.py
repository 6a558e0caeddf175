"""A mixer of TrackSSM in few kernels: as `Mixer.forward` in plain torch, which it is tested against (on a CPU with
TRITON_INTERPRET=1). Plain torch writes 16 states per channel to memory at every step of the way there and back; here
they stay in registers. Slopes are written where the next product reads them, so that nothing is put together.
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
_RANK, _STATES = 16, 16


def is_available() -> bool:
    return kernels is not None


class _Mixed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows_BTC: Tensor, enter: Tensor, taps: Tensor, taps_bias: Tensor, select: Tensor, rank: Tensor,
        rank_bias: Tensor, log: Tensor, skip: Tensor, leave: Tensor,
    ) -> Tensor:  # fmt: skip
        (batch, rows, _), (channels, _) = rows_BTC.shape, rank.shape
        flat_XC = rows_BTC.reshape(batch * rows, -1)
        wide = flat_XC @ enter.T
        x, y = wide.new_empty(len(wide), channels), wide.new_empty(len(wide), channels)
        kernels.conv_kernel[(batch, channels // _CONV_BLOCK)](
            wide, wide.stride(0), taps, taps_bias, x, D=channels, T=rows, BLOCK=_CONV_BLOCK
        )
        chosen = x @ select.T
        step = chosen[:, :_RANK] @ rank.T
        kernels.scan_kernel[(batch, channels // _BLOCK)](
            x, step, wide[:, channels:], wide.stride(0), chosen[:, _RANK:], chosen[:, _RANK + _STATES :],
            chosen.stride(0), rank_bias, log, skip, y, D=channels, T=rows, BLOCK=_BLOCK, num_warps=_WARPS,
        )  # fmt: skip
        ctx.save_for_backward(flat_XC, wide, x, chosen, step, y, enter, taps, taps_bias, select, rank, log, skip, leave)
        return (y @ leave.T).view(batch, rows, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dout_BTC: Tensor) -> tuple[Tensor, ...]:
        flat_XC, wide, x, chosen, step, y, enter, taps, taps_bias, select, rank, log, skip, leave = ctx.saved_tensors
        (batch, rows, _), channels = dout_BTC.shape, x.shape[1]
        dout = dout_BTC.reshape(len(x), -1)
        dleave, dy = dout.T @ y, dout @ leave
        programs, blocks = -(-batch // _EACH), channels // _BLOCK
        dwide, dx, dstep = torch.empty_like(wide), torch.empty_like(x), torch.empty_like(x)
        dboth, dweights = x.new_empty(blocks, len(x), 2 * _STATES), x.new_empty(programs, 18 * channels)
        kernels.scan_back_kernel[(programs, blocks)](
            x, step, wide[:, channels:], wide.stride(0), chosen[:, _RANK:], chosen[:, _RANK + _STATES :],
            chosen.stride(0), log, skip, dy, dx, dstep, dwide[:, channels:], dboth, dweights, batch,
            EACH=_EACH, D=channels, T=rows, BLOCK=_BLOCK, num_warps=_WARPS,
        )  # fmt: skip
        dlog, drank_bias, dskip = dweights.sum(0).split_with_sizes((_STATES * channels, channels, channels))
        drank = dstep.T @ chosen[:, :_RANK]
        dchosen = torch.cat((dstep @ rank, dboth.sum(0)), dim=1)
        dselect = dchosen.T @ x
        dx.addmm_(dchosen, select)
        programs = -(-batch // _CONV_EACH)
        dtaps = x.new_empty(programs, 5 * channels)
        kernels.conv_back_kernel[(programs, channels // _CONV_BLOCK)](
            wide, wide.stride(0), taps, taps_bias, dx, dwide, dtaps, batch,
            EACH=_CONV_EACH, D=channels, T=rows, BLOCK=_CONV_BLOCK,
        )  # fmt: skip
        dtaps, dtaps_bias = dtaps.sum(0).split_with_sizes((4 * channels, channels))
        return (
            (dwide @ enter).view(batch, rows, -1), dwide.T @ flat_XC, dtaps.view(taps.shape), dtaps_bias, dselect,
            drank, drank_bias, dlog.view(log.shape), dskip, dleave,
        )  # fmt: skip


def mixed(rows_BTC: Tensor, mixer: Any) -> Tensor:
    found: Tensor = _Mixed.apply(  # type: ignore[no-untyped-call]
        rows_BTC, mixer.in_proj.weight, mixer.conv1d.weight, mixer.conv1d.bias, mixer.x_proj.weight,
        mixer.dt_proj.weight, mixer.dt_proj.bias, mixer.A_log, mixer.D, mixer.out_proj.weight,
    )  # fmt: skip
    return found
