"""Folding what only training needs into the convolutions: the same outputs to rounding, fewer passes over the maps."""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yolofast.model.blocks import Conv, FusedRepConv, RepConv
from yolofast.model.contract import Network
from yolofast.model.heads import IDetect, prediction_convs


def fuse(model: Network) -> Network:
    """A copy for inference: BatchNorm folded into convolutions, RepConv branches summed, implicit vectors absorbed.

    The copy is in evaluation mode. Implicit vectors stay in its state dict as 0 and 1, which change nothing.
    """
    fused = copy.deepcopy(model).eval()
    for parent in list(fused.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, Conv) and isinstance(child.bn, nn.BatchNorm2d):
                child.conv, child.bn = _folded(child.conv, child.bn), nn.Identity()
            elif isinstance(child, RepConv):
                setattr(parent, name, _fuse_rep_conv(child))
    for layer in fused.layers:
        if isinstance(layer.module, IDetect):
            fold_implicit(layer.module)
    return fused


@torch.no_grad()
def fold_implicit(head: IDetect) -> None:
    """Absorb both implicit vectors: m·(W(x + a) + b) = (mW)x + m(Wa + b). The sum comes first, then the scale."""
    if head.implicit_folded:
        return
    for conv, add, scale in zip(prediction_convs(head.m), head.ia, head.im, strict=True):
        assert conv.bias is not None
        a, m = add.implicit, scale.implicit
        assert isinstance(a, Tensor) and isinstance(m, Tensor)
        conv.bias += conv.weight.flatten(1) @ a.flatten()
        conv.bias *= m.flatten()
        conv.weight *= m.view(-1, 1, 1, 1)
        a.zero_()
        m.fill_(1.0)
    head.implicit_folded = True


@torch.no_grad()
def _fuse_rep_conv(block: RepConv) -> FusedRepConv:
    dense, point = block.rbr_dense, block.rbr_1x1
    assert isinstance(dense[0], nn.Conv2d) and isinstance(dense[1], nn.BatchNorm2d)
    assert isinstance(point[0], nn.Conv2d) and isinstance(point[1], nn.BatchNorm2d)
    conv, side = _folded(dense[0], dense[1]), _folded(point[0], point[1])
    assert conv.bias is not None and side.bias is not None
    conv.weight += F.pad(side.weight, (1, 1, 1, 1))
    conv.bias += side.bias
    if block.rbr_identity is not None:
        scale, shift = _scale_and_shift(block.rbr_identity)
        channel = torch.arange(conv.out_channels, device=scale.device)
        # With groups a filter sees only its group's inputs, so "itself" is its place within the group.
        conv.weight[channel, channel % conv.weight.shape[1], 1, 1] += scale
        conv.bias += shift
    return FusedRepConv(conv, block.act)


@torch.no_grad()
def _folded(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> nn.Conv2d:
    """One convolution with bias in place of a convolution and the BatchNorm behind it."""
    scale, shift = _scale_and_shift(norm)
    fused = nn.Conv2d(
        conv.in_channels,
        conv.out_channels,
        conv.kernel_size,  # type: ignore[arg-type]
        conv.stride,  # type: ignore[arg-type]
        conv.padding,  # type: ignore[arg-type]
        groups=conv.groups,
        device=conv.weight.device,
        dtype=conv.weight.dtype,
    )
    assert fused.bias is not None
    fused.weight.copy_(conv.weight * scale.view(-1, 1, 1, 1))
    fused.bias.copy_(shift if conv.bias is None else shift + conv.bias * scale)
    return fused.requires_grad_(conv.weight.requires_grad)


def _scale_and_shift(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    assert norm.running_mean is not None and norm.running_var is not None
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    return scale, norm.bias - norm.running_mean * scale
