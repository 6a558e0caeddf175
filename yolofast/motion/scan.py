"""The scans of a state-space model, in plain torch. On a GPU `scan_triton` and `stages_triton` serve instead.

A state fades and takes in a row, and something of it is read. What is taken in, how fast the state fades and what is
read depend on the row. Histories have five rows, so five steps are written one after the other. A kernel for long
sequences, such as that of `mamba-ssm`, would gain nothing and needs a compiler.

Axes: B histories, T rows of a history, D channels, N = 16 states of each, K = 4 taps of the convolution.
"""

import sys
from types import ModuleType

import torch
from torch import Tensor
from torch.nn import functional

from yolofast.motion import scan_triton


def fastest(tensor: Tensor) -> ModuleType:
    """This module, whose pieces serve everywhere, or `scan_triton` where our kernels serve tensors of a device."""
    return scan_triton if tensor.is_cuda and scan_triton.is_available() else sys.modules[__name__]


def causal_conv(x_BTD: Tensor, weight_DK: Tensor, bias_D: Tensor | None) -> Tensor:
    """Each channel by itself: a row and the three before it, weighted; rows before the first are 0."""
    assert bias_D is not None
    taps, rows = weight_DK.shape[1], x_BTD.shape[1]
    padded = functional.pad(x_BTD, (0, 0, taps - 1, 0))
    total = bias_D
    for tap in range(taps):
        total = total + padded[:, tap : tap + rows] * weight_DK[:, tap]
    return functional.silu(total)


def scan(
    x_BTD: Tensor, step_BTD: Tensor, gate_BTD: Tensor, write_BTN: Tensor, read_BTN: Tensor,
    step_bias_D: Tensor, log_DN: Tensor, skip_D: Tensor,
) -> Tensor:  # fmt: skip
    state_BDN: Tensor | None = None
    y_BTD = []
    for row in range(x_BTD.shape[1]):
        x, step, gate, write, read = (one[:, row] for one in (x_BTD, step_BTD, gate_BTD, write_BTN, read_BTN))
        y_BD, state_BDN = scan_step(state_BDN, x, step, gate, write, read, step_bias_D, log_DN, skip_D)
        y_BTD.append(y_BD)
    return torch.stack(y_BTD, dim=1)


def scan_step(
    state_BDN: Tensor | None, x_BD: Tensor, step_BD: Tensor, gate_BD: Tensor, write_BN: Tensor, read_BN: Tensor,
    step_bias_D: Tensor, log_DN: Tensor, skip_D: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The state fades by exp(step · A), A = -exp(log), and takes in x. What is read of it, gated; and the state."""
    step_BD = functional.softplus(step_BD + step_bias_D)
    added_BDN = (step_BD * x_BD)[..., None] * write_BN[:, None]
    if state_BDN is None:
        state_BDN = added_BDN
    else:
        state_BDN = torch.exp(step_BD[..., None] * -torch.exp(log_DN)) * state_BDN + added_BDN
    read_BD = torch.einsum("bdn,bn->bd", state_BDN, read_BN)
    return (read_BD + skip_D * x_BD) * functional.silu(gate_BD), state_BDN
