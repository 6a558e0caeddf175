"""TrackSSM's decoder in few kernels: as `Decoder.forward` in plain torch, which it is tested against.

Forwards a stage waits for the box of the one before. Backwards none waits, as boxes and states are handed on detached:
products of all six are one batched product each, and so is what lies between them one kernel each.

Axes: S = 6 stages, B histories, C = 256 channels, N = 16 states of each, M = 48 numbers that a flow selects with.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

try:
    from yolofast.motion import _stage_kernel as kernels
except ImportError:  # Triton is not there on every platform
    kernels = None  # type: ignore[assignment]

NAMES = (
    "in_proj.weight", "x_proj.weight", "dt_proj.weight", "dt_proj.bias", "A_log", "D", "linear1.weight", "linear1.bias",
    "linear2.weight", "linear2.bias", "norm2.weight", "norm2.bias", "normal_bboxes.weight", "normal_bboxes.bias",
)  # fmt: skip
"""Of a stage's weights, in the order in which they are given here: all stages' first, all stages' second …"""
_BLOCK, _EACH, _WARPS = 32, 16, 1
"""As in `scan_triton`."""
_CHANNELS, _RANK, _CHOICES, _WAVES = 256, 16, 48, 64


class _Stages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stages: int, sigmoid: bool, last_B4: Tensor, flow_BC: Tensor, *weights: Tensor) -> Tensor:
        stacked = [in_a_row(weights[begin : begin + stages]) for begin in range(0, len(weights), stages)]
        (enter, select, rank, rank_bias, log, skip, widen, widen_bias, narrow, narrow_bias,
         norm, norm_bias, head, head_bias) = stacked  # fmt: skip
        count, width, new = len(flow_BC), _CHANNELS, flow_BC.new_empty
        chosen_BSM = (flow_BC @ select.flatten(0, 1).T).view(count, stages, _CHOICES)
        step_SBC = torch.bmm(chosen_BSM[..., :_RANK].transpose(0, 1), rank.transpose(1, 2))
        divisor_C = _divisors(flow_BC.device)
        waves_SBC, wide_SBX, y_SBC = new(stages, count, width), new(stages, count, 2 * width), new(stages, count, width)
        hidden_SBH, scaled_SBC = new(stages, count, widen.shape[1]), new(stages, count, width)
        inverse_SB, boxes_SB4 = new(stages, count), new(stages, count, 4)
        after = new(stages - 1, count, width, 16)
        kernels.embed_kernel[(count,)](last_B4, last_B4.stride(0), divisor_C, waves_SBC[0], D=width, num_warps=_WARPS)
        for k in range(stages):
            last = k == stages - 1
            torch.mm(waves_SBC[k], enter[k].T, out=wide_SBX[k])
            kernels.stage_kernel[(count, width // _BLOCK)](
                wide_SBX[k], step_SBC[k], chosen_BSM[:, k], chosen_BSM.stride(0), rank_bias[k], log[k], skip[k],
                after[max(k - 1, 0)], y_SBC[k], after[min(k, stages - 2)],
                HAS_STATE=k > 0, KEEP=not last, D=width, BLOCK=_BLOCK, num_warps=_WARPS,
            )  # fmt: skip
            torch.addmm(widen_bias[k], y_SBC[k], widen[k].T, out=hidden_SBH[k]).relu_()
            more_BC = torch.addmm(narrow_bias[k], hidden_SBH[k], narrow[k].T)
            kernels.tail_kernel[(count,)](
                y_SBC[k], more_BC, norm[k], norm_bias[k], head[k], head_bias[k], divisor_C,
                scaled_SBC[k], inverse_SB[k], boxes_SB4[k], waves_SBC[k if last else k + 1],
                SIGMOID=sigmoid, LAST=last, D=width, num_warps=_WARPS,
            )  # fmt: skip
        ctx.sigmoid = sigmoid
        ctx.save_for_backward(
            flow_BC, chosen_BSM, step_SBC, waves_SBC, wide_SBX, y_SBC, hidden_SBH, scaled_SBC, inverse_SB, boxes_SB4,
            after, *stacked,
        )  # fmt: skip
        return boxes_SB4

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dboxes_SB4: Tensor) -> tuple[Any, ...]:
        (flow_BC, chosen_BSM, step_SBC, waves_SBC, wide_SBX, y_SBC, hidden_SBH, scaled_SBC, inverse_SB, boxes_SB4,
         after, *stacked) = ctx.saved_tensors  # fmt: skip
        (_, select, rank, rank_bias, log, skip, widen, _, narrow, _, norm, norm_bias, head, _) = stacked
        (stages, count, width), new = y_SBC.shape, flow_BC.new_empty
        draw_SB4, dz_SBC = torch.empty_like(boxes_SB4), torch.empty_like(y_SBC)
        kernels.tail_back_kernel[(count, stages)](
            dboxes_SB4.contiguous(), boxes_SB4, scaled_SBC, inverse_SB, norm, head, draw_SB4, dz_SBC, count,
            SIGMOID=ctx.sigmoid, D=width, num_warps=_WARPS,
        )  # fmt: skip
        # Of scaled rows alone; what a norm's weights and a head's get follows from it.
        draw_scaled, dhead_bias = torch.bmm(draw_SB4.transpose(1, 2), scaled_SBC), draw_SB4.sum(1)
        dhead = torch.addcmul(dhead_bias[..., None] * norm_bias[:, None], draw_scaled, norm[:, None])
        dnorm, dnorm_bias = (head * draw_scaled).sum(1), torch.bmm(dhead_bias[:, None], head)[:, 0]
        dnarrow, dnarrow_bias = torch.bmm(dz_SBC.transpose(1, 2), hidden_SBH), dz_SBC.sum(1)
        dhidden_SBH = torch.ops.aten.threshold_backward(torch.bmm(dz_SBC, narrow), hidden_SBH, 0)
        dwiden, dwiden_bias = torch.bmm(dhidden_SBH.transpose(1, 2), y_SBC), dhidden_SBH.sum(1)
        dy_SBC = dz_SBC.baddbmm_(dhidden_SBH, widen)
        programs, blocks = -(-count // _EACH), width // _BLOCK
        dwide_SBX, dstep_SBC = torch.empty_like(wide_SBX), torch.empty_like(y_SBC)
        dboth, dweights = new(blocks, count, stages, 32), new(stages, programs, 18 * width)
        kernels.stage_back_kernel[(programs, blocks, stages)](
            wide_SBX, step_SBC, chosen_BSM, chosen_BSM.stride(0), rank_bias, log, skip, after, dy_SBC,
            dwide_SBX, dstep_SBC, dboth, dweights, count,
            EACH=_EACH, STAGES=stages, D=width, BLOCK=_BLOCK, num_warps=_WARPS,
        )  # fmt: skip
        dlog, drank_bias, dskip = dweights.sum(1).split_with_sizes((16 * width, width, width), dim=1)
        drank = torch.bmm(dstep_SBC.transpose(1, 2), chosen_BSM[..., :_RANK].transpose(0, 1))
        dfirst_BSR = torch.bmm(dstep_SBC, rank).transpose(0, 1)
        dchosen_BX = torch.cat((dfirst_BSR, dboth.sum(0)), dim=-1).flatten(1)
        dselect, dflow_BC = dchosen_BX.T @ flow_BC, dchosen_BX @ select.flatten(0, 1)
        denter = torch.bmm(dwide_SBX.transpose(1, 2), waves_SBC)
        found = (
            denter, dselect, drank, drank_bias, dlog, dskip, dwiden, dwiden_bias,
            dnarrow, dnarrow_bias, dnorm, dnorm_bias, dhead, dhead_bias,
        )  # fmt: skip
        cut = (one for new, own in zip(found, stacked, strict=True) for one in new.view(own.shape).unbind())
        return None, None, None, dflow_BC, *cut


def boxes_of(last_B4: Tensor, flow_BC: Tensor, stages: Sequence[Any], sigmoid: bool) -> Tensor:
    """[S, B, 4]"""
    weights = [stage.get_parameter(name) for name in NAMES for stage in stages]
    found: Tensor = _Stages.apply(len(stages), sigmoid, last_B4, flow_BC, *weights)  # type: ignore[no-untyped-call]
    return found


def in_a_row(tensors: Sequence[Tensor]) -> Tensor:
    """Stacked. Without a copy where they already lie one after the other in the same memory."""
    first, size = tensors[0], tensors[0].numel()
    place = first.storage_offset()
    storage = first.untyped_storage().data_ptr()
    if all(
        one.is_contiguous() and one.untyped_storage().data_ptr() == storage and one.storage_offset() == place + k * size
        for k, one in enumerate(tensors)
    ):
        return torch.as_strided(first, (len(tensors), *first.shape), (size, *first.stride()))
    return torch.stack(tuple(tensors))


@cache
def _divisors(device: torch.device) -> Tensor:
    """What a coordinate of each channel is divided by, in `sine_embedding`."""
    place = torch.arange(_WAVES // 2, device=device, dtype=torch.float32)
    return (10000 ** (2 * place / _WAVES)).repeat_interleave(2).repeat(4)
