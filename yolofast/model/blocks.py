"""The building blocks of the YOLOv7 graphs, under their published names and state-dict keys."""

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yolofast.fused.concat import ConcatBuffer, ConcatSlot
from yolofast.fused.fork import fork
from yolofast.fused.norm_act import norm_act
from yolofast.fused.pool import doubled, max_pool
from yolofast.fused.siblings import run_as_one
from yolofast.fused.stem import convolution
from yolofast.model.graph import LayerSpec
from yolofast.precision import NEW_KERNELS, kernels_for

BN_EPS = 1e-3
BN_MOMENTUM = 0.03
_AS_IT_IS = nn.Identity()


def batch_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=BN_EPS, momentum=BN_MOMENTUM)


class Conv(nn.Module):
    """Convolution without bias, BatchNorm, activation. `fuse()` folds the BatchNorm away.

    `slot`, of this and other blocks, is where a joint map has theirs: the project's own kernels write it there. `plus`
    is added at the end.
    """

    def __init__(
        self, c1: int, c2: int, k: int = 1, s: int = 1, p: int | None = None, g: int = 1, act: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, k // 2 if p is None else p, groups=g, bias=False)
        self.bn: nn.Module = batch_norm(c2)
        self.act = nn.SiLU() if act is None else act
        self.out_channels = c2

    def forward(self, x: Tensor, slot: ConcatSlot | None = None, plus: Tensor | None = None) -> Tensor:
        if kernels_for(x):
            return norm_act(convolution(self.conv, x), self.bn, self.act, slot, plus)
        y: Tensor = self.act(self.bn(self.conv(x)))
        return y if plus is None else plus + y


def side_by_side(convs: Sequence[nn.Module], x: Tensor, slots: Sequence[ConcatSlot | None]) -> list[Tensor]:
    """`Conv`s of the same map, by the project's own kernels as one; other modules one after the other."""
    plain = [conv for conv in convs if isinstance(conv, Conv)]
    as_one = len(plain) == len(convs) and NEW_KERNELS and kernels_for(x) and torch.is_grad_enabled()
    parts = run_as_one([conv.conv for conv in plain], x) if as_one else None
    if parts is None:
        return [conv(own, slot) for conv, own, slot in zip(convs, fork(x, len(convs)), slots, strict=True)]
    return [
        norm_act(y, conv.bn, conv.act, slot, gradient_slot=of_gradient)
        for conv, (y, of_gradient), slot in zip(plain, parts, slots, strict=True)
    ]


class RepConv(nn.Module):
    """act(BN(3×3) + BN(1×1) + BN(identity)): three branches that `fuse()` sums into one 3×3 convolution."""

    def __init__(self, c1: int, c2: int, k: int = 3, s: int = 1, g: int = 1, act: nn.Module | None = None) -> None:
        super().__init__()
        self.rbr_dense = nn.Sequential(nn.Conv2d(c1, c2, k, s, k // 2, groups=g, bias=False), batch_norm(c2))
        self.rbr_1x1 = nn.Sequential(nn.Conv2d(c1, c2, 1, s, 0, groups=g, bias=False), batch_norm(c2))
        self.rbr_identity = batch_norm(c1) if c1 == c2 and s == 1 else None
        self.act = nn.SiLU() if act is None else act

    def forward(self, x: Tensor) -> Tensor:
        y = _normalised(self.rbr_dense, x) + _normalised(self.rbr_1x1, x)
        if self.rbr_identity is not None:
            y = y + self.rbr_identity(x)
        return self.act(y)  # type: ignore[no-any-return]


def _normalised(branch: nn.Sequential, x: Tensor) -> Tensor:
    conv, norm = branch
    return norm_act(conv(x), norm, _AS_IT_IS) if kernels_for(x) else norm(conv(x))


class FusedRepConv(nn.Module):
    """What `fuse()` leaves of a RepConv."""

    def __init__(self, conv: nn.Conv2d, act: nn.Module) -> None:
        super().__init__()
        self.rbr_reparam = conv
        self.act = act

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.rbr_reparam(x))  # type: ignore[no-any-return]


class MP(nn.MaxPool2d):
    """Max-pool that halves (or divides by k) the map."""

    def __init__(self, k: int = 2) -> None:
        super().__init__(kernel_size=k, stride=k)

    def forward(self, x: Tensor, slot: ConcatSlot | None = None) -> Tensor:
        if kernels_for(x):
            return max_pool(x, self.kernel_size, self.stride, slot)  # type: ignore[arg-type]
        return super().forward(x)  # type: ignore[no-any-return]


class SP(nn.MaxPool2d):
    """Max-pool that keeps the map's size."""

    def __init__(self, k: int = 3, s: int = 1) -> None:
        super().__init__(kernel_size=k, stride=s, padding=k // 2)

    def forward(self, x: Tensor, slot: ConcatSlot | None = None) -> Tensor:
        if kernels_for(x) and self.stride == 1:
            return max_pool(x, self.kernel_size, 1, slot)  # type: ignore[arg-type]
        return super().forward(x)  # type: ignore[no-any-return]


class Upsample(nn.Upsample):
    """Nearest cells are copies, so they keep their type: autocast would widen them and all that they are joined to."""

    def forward(self, x: Tensor, slot: ConcatSlot | None = None) -> Tensor:
        doubles = (self.mode, self.size, self.scale_factor) == ("nearest", None, 2.0)
        if doubles and NEW_KERNELS and kernels_for(x) and x.requires_grad:
            return doubled(x, slot)
        if self.mode != "nearest" or not x.is_cuda:
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            wide: Tensor = super().forward(x)
        return wide


class Concat(nn.Module):
    def forward(self, inputs: list[Tensor], buffer: ConcatBuffer | None = None) -> Tensor:
        return torch.cat(inputs, dim=1) if buffer is None else buffer.concat(inputs)


class Shortcut(nn.Module):
    """Element-wise sum of two maps."""

    def forward(self, inputs: list[Tensor]) -> Tensor:
        return inputs[0] + inputs[1]


class ReOrg(nn.Module):
    """Space to depth: four times the channels at half the size, in the order (row, column) ee, oe, eo, oo."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]), dim=1)


def pool_pyramid(conv: Conv, x: Tensor) -> Tensor:
    """The map of a convolution and its maxima in windows of 5, 9 and 13, joined.

    Each is made from the one before: the same values for a third of the work.
    """
    pyramid = ConcatBuffer([conv.out_channels] * 4)
    last, maps = conv(x, pyramid.slot(0)), []
    for level in range(1, 4):
        last, below = fork(last, 2)
        maps.append(below)
        last = max_pool(last, 5, 1, pyramid.slot(level)) if kernels_for(last) else F.max_pool2d(last, 5, 1, 2)
    return pyramid.concat([*maps, last])


class SPPCSPC(nn.Module):
    """Spatial pyramid pooling in a cross-stage-partial block, all at width c2."""

    def __init__(self, c1: int, c2: int) -> None:
        super().__init__()
        self.cv1 = Conv(c1, c2, 1)
        self.cv2 = Conv(c1, c2, 1)
        self.cv3 = Conv(c2, c2, 3)
        self.cv4 = Conv(c2, c2, 1)
        self.cv5 = Conv(4 * c2, c2, 1)
        self.cv6 = Conv(c2, c2, 3)
        self.cv7 = Conv(2 * c2, c2, 1)

    def forward(self, x: Tensor, slot: ConcatSlot | None = None) -> Tensor:
        both = ConcatBuffer([self.cv6.out_channels, self.cv2.out_channels])
        deep, straight = side_by_side((self.cv1, self.cv2), x, (None, both.slot(1)))
        pooled = self.cv6(self.cv5(pool_pyramid(self.cv4, self.cv3(deep))), both.slot(0))
        return self.cv7(both.concat((pooled, straight)), slot)  # type: ignore[no-any-return]


class DownC(nn.Module):
    """Halves the map in two ways at once: a strided convolution and a max-pool, each giving half of c2."""

    def __init__(self, c1: int, c2: int) -> None:
        super().__init__()
        self.cv1 = Conv(c1, c1, 1)
        self.cv2 = Conv(c1, c2 // 2, 3, 2)
        self.cv3 = Conv(c1, c2 // 2, 1)
        self.mp = nn.MaxPool2d(kernel_size=2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        both = ConcatBuffer([self.cv2.out_channels, self.cv3.out_channels])
        mine, pooled = fork(x, 2)
        return both.concat((self.cv2(self.cv1(mine), both.slot(0)), self.cv3(self.mp(pooled), both.slot(1))))


def _implicit(channels: int, mean: float) -> nn.Parameter:
    vector = torch.empty(1, channels, 1, 1)
    if not vector.is_meta:  # there nothing is drawn, and torch would import its compiler for it
        vector.normal_(mean, 0.02)
    return nn.Parameter(vector)


class ImplicitA(nn.Module):
    """A learned vector added to every position."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.implicit = _implicit(channels, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.implicit + x


class ImplicitM(nn.Module):
    """A learned vector that scales every position."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.implicit = _implicit(channels, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.implicit * x


def cascade_pools(specs: Sequence[LayerSpec], modules: Sequence[nn.Module]) -> list[LayerSpec]:
    """Shrinks the windows of `SP` layers that can build on an earlier one; the layers as they run, which read that one.

    The maximum of 9×9 values is the maximum of 5×5 maxima of 5×5. So after a window of j one of k costs as much as one
    of k - j + 1. Values are the same to the bit; where several cells tie, gradients may choose another of them.
    """
    layers = list(specs)
    widest: dict[int, tuple[int, int]] = {}  # source -> layer and its window
    for spec, module in zip(specs, modules, strict=True):
        if not isinstance(module, SP) or module.stride != 1:
            continue
        window = int(module.kernel_size)  # type: ignore[arg-type]
        before, smaller = widest.get(spec.sources[0], (spec.index, 0))
        if window % 2 and 0 < smaller < window:
            layers[spec.index] = replace(spec, sources=(before,))
            module.kernel_size, module.padding = window - smaller + 1, (window - smaller) // 2
        if window % 2 and window > smaller:
            widest[spec.sources[0]] = (spec.index, window)
    return layers
