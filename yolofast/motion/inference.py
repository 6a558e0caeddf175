"""TrackSSM asked on a CPU: the same numbers as the network, several times as fast.

What training needs and a prediction does not is left out. The first projection is folded into the matrix that embeds a
row: 8 or 10 numbers are multiplied by one matrix instead of two, and the size of the embedded row, by which it is
normalised, is a quadratic form of them. Of the last block only the newest row is wanted, so gate, reading and the way
out are computed for that row alone. Steps, writing and reading of all decoder stages come from one product.

Rows of a history come first in memory, states before channels: every step is a few passes over arrays in a row.
Axes: T rows, B histories, D channels, N states, S stages.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from yolofast.motion.trackssm import CHANNELS, EPSILON, STAGES, Mixer, Stage, TrackSSM, sine_embedding

_PARTS = [16, 16, 16]
"""What a row selects: the rank of its step, what it writes, what it reads."""
_AT_ONCE = 128
"""Channels whose states stay in the cache during a scan."""


@dataclass(frozen=True)
class _Block:
    enter_CX: Tensor
    """The norm's weights are in it."""
    enter_CZ: Tensor
    taps_KD: Tensor
    bias_D: Tensor
    select_DM: Tensor
    step_RD: Tensor
    step_bias_D: Tensor
    rate_ND: Tensor
    skip_D: Tensor
    leave_DC: Tensor

    @classmethod
    def of(cls, norm_C: Tensor, mixer: Mixer) -> "_Block":
        assert mixer.conv1d.bias is not None
        enter = (mixer.in_proj.weight * norm_C).T
        half = enter.shape[1] // 2
        return cls(
            enter[:, :half].contiguous(), enter[:, half:].contiguous(), mixer.conv1d.weight[:, 0].T.contiguous(),
            mixer.conv1d.bias, mixer.x_proj.weight.T.contiguous(), mixer.dt_proj.weight.T.contiguous(),
            mixer.dt_proj.bias, -torch.exp(mixer.A_log).T.contiguous(), mixer.D, mixer.out_proj.weight.T.contiguous(),
        )  # fmt: skip

    def mixed(self, x_TBD: Tensor, gate_RBD: Tensor) -> Tensor:
        """`gate_RBD` is of all rows, or of the last one: so many rows come out."""
        rows, read_rows = len(x_TBD), len(gate_RBD)
        total = torch.addcmul(self.bias_D, x_TBD, self.taps_KD[-1])
        for back in range(1, len(self.taps_KD)):
            total[back:].addcmul_(x_TBD[:-back], self.taps_KD[-1 - back])
        x_TBD = functional.silu(total)
        selected_TBM = x_TBD @ self.select_DM
        rank_TBR, write_TBN, read_TBN = torch.split(selected_TBM, _PARTS, dim=-1)
        step_TBD = functional.softplus(rank_TBR @ self.step_RD + self.step_bias_D)
        taken_TBD = step_TBD * x_TBD
        write_TNB1, read_TNB1 = (one.transpose(1, 2).contiguous()[..., None] for one in (write_TBN, read_TBN))
        out_RBD = self.skip_D * x_TBD[-read_rows:]
        for part in range(0, x_TBD.shape[2], _AT_ONCE):
            channels = slice(part, part + _AT_ONCE)
            rate_N1D = self.rate_ND[:, None, channels].contiguous()
            step, taken = step_TBD[..., channels].contiguous(), taken_TBD[..., channels].contiguous()
            state_NBD = write_TNB1[0] * taken[0]
            fade_NBD = torch.empty_like(state_NBD)
            for row in range(rows):
                if row:
                    torch.mul(rate_N1D, step[row], out=fade_NBD).exp_()
                    state_NBD.mul_(fade_NBD).addcmul_(write_TNB1[row], taken[row])
                place = row - (rows - read_rows)
                if place >= 0:
                    torch.mul(state_NBD, read_TNB1[row], out=fade_NBD)
                    out_RBD[place, :, channels] += fade_NBD.sum(0)
        return (out_RBD * functional.silu(gate_RBD)) @ self.leave_DC


@dataclass(frozen=True)
class _StageWeights:
    enter_CE: Tensor
    step_RC: Tensor
    step_bias_C: Tensor
    rate_NC: Tensor
    skip_C: Tensor
    widen_CH: Tensor
    widen_bias_H: Tensor
    narrow_HC: Tensor
    narrow_bias_C: Tensor
    box_C4: Tensor
    """The last norm's weights are in it, and its bias in the other."""
    box_bias_4: Tensor

    @classmethod
    def of(cls, stage: Stage) -> "_StageWeights":
        box = stage.normal_bboxes
        return cls(
            stage.in_proj.weight.T.contiguous(), stage.dt_proj.weight.T.contiguous(), stage.dt_proj.bias,
            -torch.exp(stage.A_log).T.contiguous(), stage.D, stage.linear1.weight.T.contiguous(), stage.linear1.bias,
            stage.linear2.weight.T.contiguous(), stage.linear2.bias, (box.weight * stage.norm2.weight).T.contiguous(),
            box.bias + box.weight @ stage.norm2.bias,
        )  # fmt: skip


class CpuTrackSSM:
    """Histories in, the next boxes out."""

    @torch.no_grad()
    def __init__(self, model: TrackSSM) -> None:
        net, stages = model.encoder.mamba_net, model.ssm_decoder.stages
        self.shape, self._embed_FC = model.shape, net.embedding.weight.detach().clone()
        self._blocks = [_Block.of(block.norm.weight, block.mixer) for block in net.blocks]
        first = self._blocks[0]
        self._first_FX, self._first_FZ = self._embed_FC @ first.enter_CX, self._embed_FC @ first.enter_CZ
        self._size_FF = self._embed_FC @ self._embed_FC.T / CHANNELS
        self._select_CM = torch.cat([stage.x_proj.weight * net.norm_f.weight for stage in stages]).T.contiguous()
        self._stages = [_StageWeights.of(stage) for stage in stages]

    @torch.inference_mode()
    def __call__(self, rows_BTF: Tensor) -> Tensor:
        return self._decoded(rows_BTF[:, -1, :4], self._flow(rows_BTF.transpose(0, 1).contiguous()))

    def _flow(self, rows_TBF: Tensor) -> Tensor:
        """Divided by its size; the final norm's weights are in what reads it."""
        stream_TBC = rows_TBF @ self._embed_FC
        size_TB1 = ((rows_TBF @ self._size_FF) * rows_TBF).sum(-1, keepdim=True).add_(EPSILON).rsqrt_()
        scaled_TBF = rows_TBF * size_TB1
        for number, block in enumerate(self._blocks):
            last = number == len(self._blocks) - 1
            wanted = slice(-1, None) if last else slice(None)
            if number:
                scaled_TBC = stream_TBC * _size_of(stream_TBC)
                x_TBD, gate_RBD = scaled_TBC @ block.enter_CX, scaled_TBC[wanted] @ block.enter_CZ
            else:
                x_TBD, gate_RBD = scaled_TBF @ self._first_FX, scaled_TBF[wanted] @ self._first_FZ
            stream_TBC = stream_TBC[wanted] + block.mixed(x_TBD, gate_RBD)
        flow_BC = stream_TBC[-1]
        return flow_BC * _size_of(flow_BC)

    def _decoded(self, box_B4: Tensor, flow_BC: Tensor) -> Tensor:
        count = len(box_B4)
        selected_BSM = (flow_BC @ self._select_CM).view(count, STAGES, -1)
        rank_BSR, write_BSN, read_BSN = torch.split(selected_BSM, _PARTS, dim=-1)
        write_SNB1, read_SNB1 = (one.permute(1, 2, 0).contiguous()[..., None] for one in (write_BSN, read_BSN))
        state_NBC: Tensor | None = None
        for number, stage in enumerate(self._stages):
            x_BC, gate_BC = (sine_embedding(box_B4) @ stage.enter_CE).chunk(2, dim=-1)
            x_BC = functional.silu(x_BC)
            step_BC = functional.softplus(rank_BSR[:, number] @ stage.step_RC + stage.step_bias_C)
            taken_BC = step_BC * x_BC
            if state_NBC is None:
                state_NBC = write_SNB1[number] * taken_BC
            else:
                state_NBC.mul_((stage.rate_NC[:, None] * step_BC).exp_()).addcmul_(write_SNB1[number], taken_BC)
            y_BC = (state_NBC * read_SNB1[number]).sum(0).addcmul_(stage.skip_C, x_BC).mul_(functional.silu(gate_BC))
            hidden_BH = torch.addmm(stage.widen_bias_H, y_BC, stage.widen_CH).relu_()
            y_BC += torch.addmm(stage.narrow_bias_C, hidden_BH, stage.narrow_HC)
            box_B4 = torch.addmm(stage.box_bias_4, functional.layer_norm(y_BC, (CHANNELS,)), stage.box_C4)
            if self.shape.sigmoid:
                box_B4 = box_B4.sigmoid()
        return box_B4


def _size_of(rows: Tensor) -> Tensor:
    """What a row is multiplied by to be of size 1."""
    return rows.square().mean(-1, keepdim=True).add_(EPSILON).rsqrt_()
