"""TrackSSM (arXiv 2409.00487): the next box of a track from its last five, in plain torch.

An encoder of Mamba blocks reads the rows of a history; its last output, the flow, says how the object moves. A decoder
of six stages moves the last box to the next one, a state-space step each. Names of weights are the published ones.

Axes: B histories, T rows of a history, C = 256 channels, D channels of a scan (512 or 256), N = 16 states of each.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from yolofast.motion import loss_triton, scan, scan_triton, stages_triton

ROWS = 5
"""Boxes of a history."""
CHANNELS, _INNER, _STATES, _RANK, _TAPS, _HIDDEN = 256, 512, 16, 16, 4, 512
STAGES = 6
_WAVES = 64
"""Numbers that stand for one coordinate of a box in the decoder."""
_USUAL_RATE, _OCTAVES = 30.0, 4.0
EPSILON = 1e-5
"""Of norms."""
_SMALLEST = 1e-12


@dataclass(frozen=True, kw_only=True)
class TrackSSMShape:
    """What a weight file is for. Only the first two can be seen from the weights themselves."""

    blocks: int = 6
    timed: bool = False
    """A row also says how much time went by before it, and how much will until the box that is asked for."""
    sigmoid: bool = True
    """Boxes stay inside the image. Off in the published weights for MOT17."""
    padded_in_front: bool = False
    """Short histories begin with copies of their oldest box at rest. As published, they end with copies of the last."""

    @property
    def columns(self) -> int:
        """Centre, size, and how much each changed since the row before; two intervals."""
        return 10 if self.timed else 8


def in_octaves(seconds: Tensor) -> Tensor:
    """Intervals as a model gets them: 0 for a thirtieth of a second, 1 for four octaves more."""
    return torch.log2((seconds * _USUAL_RATE).clamp(min=2**-_OCTAVES, max=2 ** (2 * _OCTAVES))) / _OCTAVES


class TrackSSM(nn.Module):
    """Histories [B, T, 8 or 10] in, the boxes of all stages out: [stages, B, 4], centre and size, normalised."""

    def __init__(self, shape: TrackSSMShape) -> None:
        super().__init__()
        self.shape = shape
        self.encoder, self.ssm_decoder = Encoder(shape), Decoder()

    def forward(self, rows_BTF: Tensor) -> Tensor:
        boxes_SB4: Tensor = self.ssm_decoder(rows_BTF[:, -1, :4], self.encoder.mamba_net(rows_BTF), self.shape.sigmoid)
        return boxes_SB4


class Encoder(nn.Module):
    def __init__(self, shape: TrackSSMShape) -> None:
        super().__init__()
        self.mamba_net = MambaNet(shape)


class MambaNet(nn.Module):
    """Histories in, flow [B, C] out."""

    def __init__(self, shape: TrackSSMShape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.columns, CHANNELS)
        self.blocks = [Block() for _ in range(shape.blocks)]
        self.layers = nn.ModuleList(self.blocks)
        self.norm_f = RMSNorm()
        nn.init.normal_(self.embedding.weight, std=0.02)
        for block in self.blocks:
            block.mixer.out_proj.weight.data /= math.sqrt(shape.blocks)

    def forward(self, rows_BTF: Tensor) -> Tensor:
        rows_BTC = rows_BTF @ self.embedding.weight
        for block in self.blocks:
            rows_BTC = block(rows_BTC)
        flow_BC: Tensor = self.norm_f(rows_BTC[:, -1])
        return flow_BC


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = [Stage() for _ in range(STAGES)]
        self.head_series = nn.ModuleList(self.stages)
        for stage in self.stages[1:]:  # as published: they begin as equals
            stage.load_state_dict(self.stages[0].state_dict())

    def forward(self, box_B4: Tensor, flow_BC: Tensor, sigmoid: bool) -> Tensor:
        """From the last box of a history; the boxes of all stages."""
        if scan.fastest(flow_BC) is scan_triton:
            return stages_triton.boxes_of(box_B4, flow_BC, self.stages, sigmoid)
        # All of them read the same flow: one product instead of six.
        select = torch.cat([stage.x_proj.weight for stage in self.stages])
        state_BDN, boxes = None, []
        for stage, flow in zip(self.stages, functional.linear(flow_BC, select).chunk(STAGES, dim=-1), strict=True):
            raw_B4, state_BDN = stage(box_B4, state_BDN, flow)
            boxes.append(raw_B4.sigmoid() if sigmoid else raw_B4)
            box_B4, state_BDN = boxes[-1].detach(), state_BDN.detach()
        return torch.stack(boxes)


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(CHANNELS))

    def forward(self, rows: Tensor) -> Tensor:
        return functional.rms_norm(rows, (CHANNELS,), self.weight, EPSILON)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mixer = RMSNorm(), Mixer()

    def forward(self, rows_BTC: Tensor) -> Tensor:
        mixed_BTC: Tensor = self.mixer(self.norm(rows_BTC))
        return rows_BTC + mixed_BTC


class Mixer(nn.Module):
    """Mamba: what each row adds to a state, and how fast that state fades, depends on the row."""

    def __init__(self) -> None:
        super().__init__()
        self.in_proj = nn.Linear(CHANNELS, 2 * _INNER, bias=False)
        self.conv1d = nn.Conv1d(_INNER, _INNER, _TAPS, groups=_INNER)
        self.x_proj = nn.Linear(_INNER, _RANK + 2 * _STATES, bias=False)
        self.dt_proj = nn.Linear(_RANK, _INNER)
        self.out_proj = nn.Linear(_INNER, CHANNELS, bias=False)
        self.A_log, self.D = _state_space(_INNER, self.dt_proj)

    def forward(self, rows_BTC: Tensor) -> Tensor:
        kernels = scan.fastest(rows_BTC)
        if kernels is scan_triton:
            return scan_triton.mixed(rows_BTC, self)
        x_BTD, gate_BTD = self.in_proj(rows_BTC).chunk(2, dim=-1)
        x_BTD = kernels.causal_conv(x_BTD, self.conv1d.weight[:, 0], self.conv1d.bias)
        rank_BTR, write_BTN, read_BTN = self.x_proj(x_BTD).split((_RANK, _STATES, _STATES), dim=-1)
        step_BTD = functional.linear(rank_BTR, self.dt_proj.weight)
        y_BTD = kernels.scan(x_BTD, step_BTD, gate_BTD, write_BTN, read_BTN, self.dt_proj.bias, self.A_log, self.D)
        out_BTC: Tensor = self.out_proj(y_BTD)
        return out_BTC


class Stage(nn.Module):
    """One step from the last box towards the next: the flow says how, the box before is what is moved."""

    def __init__(self) -> None:
        super().__init__()
        self.in_proj = nn.Linear(CHANNELS, 2 * CHANNELS, bias=False)
        self.x_proj = nn.Linear(CHANNELS, _RANK + 2 * _STATES, bias=False)
        self.dt_proj = nn.Linear(_RANK, CHANNELS)
        self.linear1, self.linear2 = nn.Linear(CHANNELS, _HIDDEN), nn.Linear(_HIDDEN, CHANNELS)
        self.norm2 = nn.LayerNorm(CHANNELS)
        self.normal_bboxes = nn.Linear(CHANNELS, 4)
        self.A_log, self.D = _state_space(CHANNELS, self.dt_proj)

    def forward(self, box_B4: Tensor, state_BDN: Tensor | None, flow: Tensor) -> tuple[Tensor, Tensor]:
        """The box before its sigmoid, and the state. `flow` is what `x_proj` makes of it."""
        x_BD, gate_BD = self.in_proj(sine_embedding(box_B4)).chunk(2, dim=-1)
        rank_BR, write_BN, read_BN = flow.split_with_sizes((_RANK, _STATES, _STATES), dim=-1)
        step_BD = functional.linear(rank_BR, self.dt_proj.weight)
        y_BD, state_BDN = scan.fastest(x_BD).scan_step(
            state_BDN, functional.silu(x_BD), step_BD, gate_BD, write_BN, read_BN,
            self.dt_proj.bias, self.A_log, self.D,
        )  # fmt: skip
        y_BD = y_BD + self.linear2(functional.relu(self.linear1(y_BD)))
        return self.normal_bboxes(self.norm2(y_BD)), state_BDN


def sine_embedding(boxes_B4: Tensor, lengths: Tensor | None = None) -> Tensor:
    """[B, C]: each coordinate as sines and cosines of 32 wavelengths, one after the other."""
    angles = boxes_B4[..., None] * (2 * math.pi) / (wavelengths(boxes_B4) if lengths is None else lengths)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


def wavelengths(like: Tensor) -> Tensor:
    place = torch.arange(_WAVES // 2, device=like.device, dtype=like.dtype)
    return 10000 ** (2 * place / _WAVES)


def _state_space(channels: int, step: nn.Linear) -> tuple[nn.Parameter, nn.Parameter]:
    """The published start: states fade at rates 1 … 16, steps are between 0.001 and 0.1."""
    nn.init.uniform_(step.weight, -(_RANK**-0.5), _RANK**-0.5)
    first = torch.exp(torch.empty(channels).uniform_(math.log(1e-3), math.log(1e-1)))
    step.bias.data.copy_(first + torch.log(-torch.expm1(-first)))  # softplus gives `first` again
    rates = torch.arange(1.0, _STATES + 1).log()
    return nn.Parameter(rates.repeat(channels, 1)), nn.Parameter(torch.ones(channels))


def loss_of(boxes_SB4: Tensor, last_B4: Tensor, truth_B4: Tensor, giou: bool = True) -> dict[str, Tensor]:
    """By its terms. Stage k of 6 is to be k/6 of the way from the last box to the true one."""
    if scan.fastest(boxes_SB4) is scan_triton:
        l1, overlap = loss_triton.terms_of(boxes_SB4, last_B4, truth_B4, _SMALLEST).unbind()
        return {"l1": l1, "giou": overlap} if giou else {"l1": l1}
    share = torch.arange(1, STAGES + 1, device=boxes_SB4.device)[:, None, None] / STAGES
    wanted_SB4 = last_B4 + share * (truth_B4 - last_B4)
    terms = {"l1": functional.smooth_l1_loss(boxes_SB4, wanted_SB4) * STAGES}
    if giou:
        terms["giou"] = (1 - _giou(boxes_SB4, wanted_SB4)).mean() * STAGES
    return terms


def _giou(first: Tensor, second: Tensor) -> Tensor:
    """Of boxes given as centre and size: IoU less the empty share of the box around both.

    Boxes are cut by `chunk` and `unbind`, which are one kernel on the way back; a slice is three.
    """
    (low1, high1), (low2, high2) = _corners(first), _corners(second)
    both = _area(torch.minimum(high1, high2) - torch.maximum(low1, low2))
    around = _area(torch.maximum(high1, high2) - torch.minimum(low1, low2))
    union = _area(high1 - low1) + _area(high2 - low2) - both
    return both / union.clamp(min=_SMALLEST) - (around - union) / around.clamp(min=_SMALLEST)


def _corners(boxes: Tensor) -> tuple[Tensor, Tensor]:
    centre, size = boxes.chunk(2, dim=-1)
    half = size / 2
    return centre - half, centre + half


def _area(sides: Tensor) -> Tensor:
    width, height = sides.clamp(min=0).unbind(-1)
    return width * height
