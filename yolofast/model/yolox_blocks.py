"""The building blocks of YOLOX, under their published state-dict keys. Convolutions are YOLOv7's `Conv`."""

import torch
from torch import Tensor, nn

from yolofast.model.blocks import Conv, ReOrg


class DepthwiseConv(nn.Module):
    """A convolution in two: each channel by itself, then all channels at each place (YOLOX-nano)."""

    def __init__(self, c1: int, c2: int, k: int, s: int = 1) -> None:
        super().__init__()
        self.dconv = Conv(c1, c1, k, s, g=c1)
        self.pconv = Conv(c1, c2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.pconv(self.dconv(x))  # type: ignore[no-any-return]


def conv3(c1: int, c2: int, s: int = 1, *, depthwise: bool) -> nn.Module:
    """The 3×3 convolution of a network: plain, or in two."""
    return DepthwiseConv(c1, c2, 3, s) if depthwise else Conv(c1, c2, 3, s)


class Focus(nn.Module):
    """Space to depth, then a 3×3 convolution: the first layer, at half the image's size."""

    def __init__(self, c1: int, c2: int) -> None:
        super().__init__()
        self.reorg = ReOrg()
        self.conv = Conv(4 * c1, c2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.reorg(x))  # type: ignore[no-any-return]


class Bottleneck(nn.Module):
    """1×1 and 3×3, added to what came in if `shortcut`."""

    def __init__(self, channels: int, *, shortcut: bool, depthwise: bool) -> None:
        super().__init__()
        self.conv1 = Conv(channels, channels, 1)
        self.conv2 = conv3(channels, channels, depthwise=depthwise)
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv2(self.conv1(x))
        return x + y if self.shortcut else y


class CspLayer(nn.Module):
    """Two halves by 1×1; bottlenecks on the first; both joined by 1×1."""

    def __init__(self, c1: int, c2: int, n: int, *, shortcut: bool, depthwise: bool) -> None:
        super().__init__()
        half = c2 // 2
        self.conv1 = Conv(c1, half, 1)
        self.conv2 = Conv(c1, half, 1)
        self.conv3 = Conv(2 * half, c2, 1)
        self.m = nn.Sequential(*(Bottleneck(half, shortcut=shortcut, depthwise=depthwise) for _ in range(n)))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv3(torch.cat((self.m(self.conv1(x)), self.conv2(x)), dim=1))  # type: ignore[no-any-return]


class SppBottleneck(nn.Module):
    """Spatial pyramid pooling between two 1×1 convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.conv1 = Conv(channels, half, 1)
        # Windows of 5, 9 and 13, each made from the one before: the same values for a third of the work.
        self.m = nn.ModuleList(nn.MaxPool2d(kernel_size=5, stride=1, padding=2) for _ in range(3))
        self.conv2 = Conv(4 * half, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        maps = [self.conv1(x)]
        for pool in self.m:
            maps.append(pool(maps[-1]))
        return self.conv2(torch.cat(maps, dim=1))  # type: ignore[no-any-return]
