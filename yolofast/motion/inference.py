"""TrackSSM asked on a CPU: the same numbers as the network, several times as fast.

What training needs and a prediction does not is left out. The first projection is folded into the matrix that embeds a
row: 8 or 10 numbers are multiplied by one matrix instead of two. The embedded row is normalised by its size, which is
a quadratic form of them. Of the last block only the newest row is wanted, so gate, reading and the way
out are computed for that row alone. Steps, writing and reading of all decoder stages come from one product.

Rows of a history come first in memory, states before channels: every step is a few passes over arrays in a row, and
what is read of them a product of matrices. Steps write into memory that is there: asking for more takes as long.
States fade by powers of 2, which torch computes in a quarter of the time of powers of e. Products are oneDNN's
(`Product`).
Axes: T rows, B histories, D channels, N states, S stages.
"""

import math
import threading
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from yolofast.motion.trackssm import CHANNELS, EPSILON, STAGES, Mixer, Stage, TrackSSM, sine_embedding, wavelengths

_PARTS = [16, 16, 16]
"""What a row selects: the rank of its step, what it writes, what it reads."""
_AT_ONCE = 128
"""Channels whose states stay in the cache during a scan."""


class Product:
    """Rows times weights, many times the same weights.

    oneDNN multiplies by weights that lie as it wants them. That takes half the time of the product that torch is built
    with, MKL's, on processors that MKL does not know, and no longer on others.
    """

    def __init__(self, weights_CD: Tensor, bias_D: Tensor | None = None) -> None:
        self._weights_CD, self._bias_D = weights_CD.contiguous(), bias_D
        self._laid_out = _laid_out(weights_CD.T.contiguous())

    def __call__(self, rows: Tensor, then: str = "none") -> Tensor:
        """[..., C] -> [..., D]. `then` may be "relu"."""
        if self._laid_out is not None:
            found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._laid_out, self._bias_D, then, [], "")
            return found
        found = rows @ self._weights_CD
        if self._bias_D is not None:
            found += self._bias_D
        return found.relu_() if then == "relu" else found


def _laid_out(weights_DC: Tensor) -> Tensor | None:
    """None where torch is built without oneDNN. torch's compiler uses the same two operations, but nobody is promised
    them, so an answer is compared."""
    try:
        found: Tensor = torch.ops.mkldnn._reorder_linear_weight(weights_DC)
        rows = torch.linspace(-1, 1, 2 * weights_DC.shape[1]).view(2, -1)
        answer = torch.ops.mkldnn._linear_pointwise(rows, found, None, "none", [], "")
    except (AttributeError, RuntimeError, TypeError):
        return None
    return found if torch.allclose(answer, rows @ weights_DC.T, rtol=1e-4, atol=1e-4) else None


@dataclass(frozen=True)
class _Block:
    enter_CX: Tensor
    """The norm's weights are in it."""
    enter_CZ: Tensor
    enter_x: Product
    enter_z: Product
    """The same two."""
    taps_KD: Tensor
    bias_D: Tensor
    select: Product
    step_RD: Tensor
    step_bias_D: Tensor
    rate_ND: Tensor
    skip_D: Tensor
    leave: Product

    @classmethod
    def of(cls, norm_C: Tensor, mixer: Mixer) -> "_Block":
        assert mixer.conv1d.bias is not None
        enter = (mixer.in_proj.weight * norm_C).T
        enter_x, enter_z = enter.chunk(2, dim=1)
        return cls(
            enter_x, enter_z, Product(enter_x), Product(enter_z), mixer.conv1d.weight[:, 0].T.contiguous(),
            mixer.conv1d.bias, Product(mixer.x_proj.weight.T), mixer.dt_proj.weight.T.contiguous(),
            mixer.dt_proj.bias, _rates(mixer.A_log), mixer.D, Product(mixer.out_proj.weight.T),
        )  # fmt: skip

    def mixed(self, x_TBD: Tensor, gate_RBD: Tensor, kept: "_Kept") -> Tensor:
        """`gate_RBD` is of all rows, or of the last one: so many rows come out. It is changed."""
        (rows, count, width), read_rows = x_TBD.shape, len(gate_RBD)
        total = torch.addcmul(self.bias_D, x_TBD, self.taps_KD[-1], out=kept.like("convolved", x_TBD))
        for back in range(1, len(self.taps_KD)):
            total[back:].addcmul_(x_TBD[:-back], self.taps_KD[-1 - back])
        x_TBD = functional.silu(total, inplace=True)
        rank_TBR, write_TBN, read_TBN = torch.split(self.select(x_TBD), _PARTS, dim=-1)
        step_TBD = kept.like("steps", x_TBD)
        torch.addmm(self.step_bias_D, rank_TBR.flatten(0, 1), self.step_RD, out=step_TBD.view(-1, width))
        torch.ops.aten.softplus.out(step_TBD, out=step_TBD)
        taken_TBD = torch.mul(step_TBD, x_TBD, out=kept.like("taken", x_TBD))
        write_TBN1, read_TB1N = write_TBN.contiguous()[..., None], read_TBN.contiguous()[:, :, None]
        out_RBD = torch.mul(self.skip_D, x_TBD[-read_rows:], out=kept.like("out", gate_RBD))
        state_BND, fade_BND = (kept.take(name, count, _PARTS[1], _AT_ONCE) for name in ("state", "fade"))
        for part in range(0, width, _AT_ONCE):
            channels = slice(part, part + _AT_ONCE)
            rate_ND = self.rate_ND[:, channels]
            step, taken = (one[:, :, None, channels] for one in (step_TBD, taken_TBD))
            torch.mul(write_TBN1[0], taken[0], out=state_BND)
            for row in range(rows):
                if row:
                    torch.mul(rate_ND, step[row], out=fade_BND).exp2_()
                    state_BND.mul_(fade_BND).addcmul_(write_TBN1[row], taken[row])
                place = row - (rows - read_rows)
                if place >= 0:
                    out_RBD[place, :, channels] += torch.bmm(read_TB1N[row], state_BND)[:, 0]
        return self.leave(out_RBD.mul_(functional.silu(gate_RBD, inplace=True)))


class _Kept(threading.local):
    """Memory that is used again with every question, of a thread: new memory costs as much as the work done in it."""

    def __init__(self) -> None:
        self._parts: dict[str, Tensor] = {}

    def take(self, name: str, *shape: int) -> Tensor:
        """Holds anything."""
        wanted = math.prod(shape)
        if name not in self._parts or self._parts[name].numel() < wanted:
            self._parts[name] = torch.empty(wanted)
        return self._parts[name][:wanted].view(shape)

    def like(self, name: str, other: Tensor) -> Tensor:
        return self.take(name, *other.shape)


@dataclass(frozen=True)
class _StageWeights:
    enter: Product
    step_RC: Tensor
    step_bias_C: Tensor
    rate_NC: Tensor
    skip_C: Tensor
    widen: Product
    narrow: Product
    box_C4: Tensor
    """The last norm's weights are in it, and its bias in the other."""
    box_bias_4: Tensor

    @classmethod
    def of(cls, stage: Stage) -> "_StageWeights":
        box = stage.normal_bboxes
        return cls(
            Product(stage.in_proj.weight.T), stage.dt_proj.weight.T.contiguous(), stage.dt_proj.bias,
            _rates(stage.A_log), stage.D, Product(stage.linear1.weight.T, stage.linear1.bias),
            Product(stage.linear2.weight.T, stage.linear2.bias), (box.weight * stage.norm2.weight).T.contiguous(),
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
        self._select = Product(torch.cat([stage.x_proj.weight * net.norm_f.weight for stage in stages]).T)
        self._stages = [_StageWeights.of(stage) for stage in stages]
        self._wavelengths = wavelengths(self._embed_FC)
        self._kept = _Kept()

    @torch.inference_mode()
    def __call__(self, rows_BTF: Tensor) -> Tensor:
        return self._decoded(rows_BTF[:, -1, :4], self._flow(rows_BTF.transpose(0, 1).contiguous()))

    def _flow(self, rows_TBF: Tensor) -> Tensor:
        """Divided by its size; the final norm's weights are in what reads it."""
        stream_TBC = rows_TBF @ self._embed_FC
        size_TB1 = ((rows_TBF @ self._size_FF) * rows_TBF).sum(-1, keepdim=True).add_(EPSILON).rsqrt_()
        kept = self._kept
        for number, block in enumerate(self._blocks):
            last = number == len(self._blocks) - 1
            wanted = slice(-1, None) if last else slice(None)
            if number:
                scaled = stream_TBC * _size_of(stream_TBC)
                x_TBD, gate_RBD = block.enter_x(scaled), block.enter_z(scaled[wanted])
            else:
                scaled = rows_TBF * size_TB1
                x_TBD, gate_RBD = scaled @ self._first_FX, scaled[wanted] @ self._first_FZ
            stream_TBC = stream_TBC[wanted] + block.mixed(x_TBD, gate_RBD, kept)
        flow_BC = stream_TBC[-1]
        return flow_BC * _size_of(flow_BC)

    def _decoded(self, box_B4: Tensor, flow_BC: Tensor) -> Tensor:
        count = len(box_B4)
        selected_BSM = self._select(flow_BC).view(count, STAGES, -1)
        rank_BSR, write_BSN, read_BSN = torch.split(selected_BSM, _PARTS, dim=-1)
        write_SBN1, read_SB1N = (
            one.transpose(0, 1).contiguous() for one in (write_BSN[..., None], read_BSN[:, :, None])
        )
        state_BNC, fade_BNC = (self._kept.take(name, count, _PARTS[1], CHANNELS) for name in ("state", "fade"))
        for number, stage in enumerate(self._stages):
            x_BC, gate_BC = stage.enter(sine_embedding(box_B4, self._wavelengths)).chunk(2, dim=-1)
            x_BC = functional.silu(x_BC)
            step_BC = functional.softplus(torch.addmm(stage.step_bias_C, rank_BSR[:, number], stage.step_RC))
            taken_B1C = (step_BC * x_BC)[:, None]
            if number:
                torch.mul(stage.rate_NC, step_BC[:, None], out=fade_BNC).exp2_()
                state_BNC.mul_(fade_BNC).addcmul_(write_SBN1[number], taken_B1C)
            else:
                torch.mul(write_SBN1[number], taken_B1C, out=state_BNC)
            y_BC = torch.bmm(read_SB1N[number], state_BNC)[:, 0]
            y_BC.addcmul_(stage.skip_C, x_BC).mul_(functional.silu(gate_BC))
            y_BC += stage.narrow(stage.widen(y_BC, then="relu"))
            box_B4 = torch.addmm(stage.box_bias_4, functional.layer_norm(y_BC, (CHANNELS,)), stage.box_C4)
            if self.shape.sigmoid:
                box_B4 = box_B4.sigmoid()
        return box_B4


def _rates(log_DN: Tensor) -> Tensor:
    """[N, D], of powers of 2."""
    return -(torch.exp(log_DN) / math.log(2)).T.contiguous()


def _size_of(rows: Tensor) -> Tensor:
    """What a row is multiplied by to be of size 1."""
    return rows.square().mean(-1, keepdim=True).add_(EPSILON).rsqrt_()
