"""1B4H: one backbone, several heads that each own some of the classes.

The heads sit directly on the shared maps, with the same anchors and strides. Raw maps come head-major:
map `head * levels + level`. Decoding puts each head's scores into the columns of the whole data set.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from yolofast.model.head_config import HeadConfig
from yolofast.model.heads import AnchorHead, add_prior, channels_per_anchor
from yolofast.structures import HeadLayout


class MultiHeadDetect(AnchorHead):
    """One 1×1 convolution per head and level."""

    def __init__(
        self,
        layout: HeadLayout,
        anchors_px: Sequence[Sequence[float]],
        channels: Sequence[int],
        config: HeadConfig,
    ) -> None:
        super().__init__(layout, anchors_px)
        self.config = config
        self.heads = nn.ModuleList(_level_convs(layout, len(own), channels) for own in layout.head_classes)
        self.class_columns = _class_columns(layout)

    def forward(self, inputs: list[Tensor]) -> list[Tensor]:
        return [
            self._to_map(conv(x))
            for convs in self.heads
            for conv, x in zip(convs, inputs, strict=True)  # type: ignore[call-overload]
        ]


class MultiHeadDetectAttention(MultiHeadDetect):
    """MultiHeadDetect with an attention block of its own before every convolution."""

    def __init__(
        self,
        layout: HeadLayout,
        anchors_px: Sequence[Sequence[float]],
        channels: Sequence[int],
        config: HeadConfig,
    ) -> None:
        super().__init__(layout, anchors_px, channels, config)
        self.attention = nn.ModuleList(nn.ModuleList(CBAM(c) for c in channels) for _ in layout.head_classes)

    def forward(self, inputs: list[Tensor]) -> list[Tensor]:
        return [
            self._to_map(conv(attend(x)))
            for convs, attends in zip(self.heads, self.attention, strict=True)
            for conv, attend, x in zip(convs, attends, inputs, strict=True)  # type: ignore[call-overload]
        ]


class CBAM(nn.Module):
    """Channel attention, then spatial attention (Woo et al., 2018)."""

    def __init__(self, channels: int, reduction: int = 16) -> None:
        super().__init__()
        hidden = max(1, channels // reduction)
        self.channel_mlp = nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False), nn.ReLU(), nn.Conv2d(hidden, channels, 1, bias=False)
        )
        self.spatial = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        average, peak = x.mean((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
        x = x * (self.channel_mlp(average) + self.channel_mlp(peak)).sigmoid()
        summary = torch.cat((x.mean(1, keepdim=True), x.amax(1, keepdim=True)), dim=1)
        return x * self.spatial(summary).sigmoid()  # type: ignore[no-any-return]


def _level_convs(layout: HeadLayout, own_classes: int, channels: Sequence[int]) -> nn.ModuleList:
    classes = layout.nc if layout.full_head else own_classes
    out = layout.anchors_per_cell * channels_per_anchor(layout, classes)
    convs = [nn.Conv2d(c, out, 1) for c in channels]
    for conv, stride in zip(convs, layout.strides, strict=True):
        add_prior(conv, layout, classes, stride)
    return nn.ModuleList(convs)


def _class_columns(layout: HeadLayout) -> Tensor:
    """`[heads, nc]`: the class channel of each class in each head, or one past the last for a class it does not own."""
    rows = []
    for own in layout.head_classes:
        absent = layout.nc if layout.full_head else len(own)
        place = {c: (c if layout.full_head else i) for i, c in enumerate(own)}
        rows.append([place.get(c, absent) for c in range(layout.nc)])
    return torch.tensor(rows)
