"""Detection heads with anchors: each turns feature maps into raw maps `[B, na, H, W, channels]` and nothing else.

Anchors are kept twice, as published checkpoints do: `anchors` in units of the level's stride, `anchor_grid` in pixels.

1B4H is one backbone and several heads that each own some of the classes. They sit directly on the shared maps, with the
same anchors and strides. Their raw maps come head-major: map `head * levels + level`. Decoding puts each head's scores
into the columns of the whole data set.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from yolofast.fused.predict import can_be_folded, folded_prediction
from yolofast.model.blocks import ImplicitA, ImplicitM
from yolofast.precision import kernels_for
from yolofast.structures import HeadLayout

# The published prior: about 8 objects in an image of 640 pixels, classes equally likely with 0.6 of certainty.
_PRIOR_OBJECTS, _PRIOR_IMAGE, _PRIOR_CLASS = 8, 640, 0.6


class AnchorHead(nn.Module):
    """What every anchor-based head shares: the anchors and how its maps are to be read."""

    anchors: Tensor
    anchor_grid: Tensor
    class_columns: Tensor | None

    def __init__(self, layout: HeadLayout, anchors_px: Sequence[Sequence[float]], channels: Sequence[int]) -> None:
        """`channels` are those of the inputs."""
        super().__init__()
        self.layout = layout
        levels, na = layout.levels, layout.anchors_per_cell
        # Divided on the CPU: on the meta device, where networks are tried, torch would import its compiler for it.
        pixels = torch.tensor(anchors_px, dtype=torch.float32, device="cpu").view(levels, na, 2)
        strides = torch.tensor(layout.strides, dtype=torch.float32, device="cpu").view(levels, 1, 1)
        device = torch.get_default_device()
        self.register_buffer("anchors", (pixels / strides).to(device))
        self.register_buffer("anchor_grid", pixels.view(levels, 1, na, 1, 1, 2).to(device, copy=True))
        self.register_buffer("class_columns", None, persistent=False)  # of several heads

    @property
    def anchors_px(self) -> Tensor:
        return self.anchor_grid.flatten(0, 4).view(self.layout.levels, self.layout.anchors_per_cell, 2)

    def set_anchors(self, anchors_px: Tensor) -> None:
        """Replace the anchors, both copies, by sizes in pixels `[L, na, 2]`."""
        strides = anchors_px.new_tensor(self.layout.strides).view(-1, 1, 1)
        self.anchors.copy_(anchors_px / strides)
        self.anchor_grid.copy_(anchors_px.view_as(self.anchor_grid))

    def _raw_map(self, conv: nn.Module, x: Tensor) -> Tensor:
        if kernels_for(x) and can_be_folded(x, conv):
            return folded_prediction(x, conv, self.layout.anchors_per_cell)
        return self._to_map(conv(x))

    def _to_map(self, x: Tensor) -> Tensor:
        """`[B, na·no, H, W]` as `[B, na, H, W, no]`, a view: no copy in either memory format."""
        batch, _, height, width = x.shape
        return x.view(batch, self.layout.anchors_per_cell, -1, height, width).permute(0, 1, 3, 4, 2)


class Detect(AnchorHead):
    """One 1×1 convolution per level."""

    def __init__(self, layout: HeadLayout, anchors_px: Sequence[Sequence[float]], channels: Sequence[int]) -> None:
        super().__init__(layout, anchors_px, channels)
        self.m = _level_convs(layout, layout.nc, channels)

    def forward(self, inputs: list[Tensor]) -> list[Tensor]:
        return [self._raw_map(conv, x) for conv, x in zip(self.m, inputs, strict=True)]


class IDetect(AnchorHead):
    """Detect between two learned vectors: one added before, one multiplied after. `fuse()` folds both into the conv."""

    def __init__(self, layout: HeadLayout, anchors_px: Sequence[Sequence[float]], channels: Sequence[int]) -> None:
        super().__init__(layout, anchors_px, channels)
        lead, aux = channels[: layout.levels], channels[layout.levels :]
        self.m = _level_convs(layout, layout.nc, lead)
        if aux:  # registered here and not in IAuxDetect, so that parameters keep the published order
            self.m2 = _level_convs(layout, layout.nc, aux)
        self.ia = nn.ModuleList(ImplicitA(c) for c in lead)
        self.im = nn.ModuleList(ImplicitM(conv.out_channels) for conv in prediction_convs(self.m))
        self.implicit_folded = False

    def forward(self, inputs: list[Tensor]) -> list[Tensor]:
        return [self._predict(level, x) for level, x in enumerate(inputs)]

    def _predict(self, level: int, x: Tensor) -> Tensor:
        if self.implicit_folded:
            return self._raw_map(self.m[level], x)
        if kernels_for(x) and can_be_folded(x, self.m[level]):
            before, after = self.ia[level], self.im[level]
            assert isinstance(before, ImplicitA) and isinstance(after, ImplicitM)
            anchors = self.layout.anchors_per_cell
            return folded_prediction(x, self.m[level], anchors, before.implicit, after.implicit)
        return self._to_map(self.im[level](self.m[level](self.ia[level](x))))


class IAuxDetect(IDetect):
    """IDetect on the first half of its inputs (lead), plain convolutions on the rest (aux) while training."""

    def forward(self, inputs: list[Tensor]) -> list[Tensor]:
        levels = self.layout.levels
        lead = super().forward(inputs[:levels])
        if not self.training:
            return lead
        return lead + [self._raw_map(conv, x) for conv, x in zip(self.m2, inputs[levels:], strict=True)]


class IBin(IDetect):
    """IDetect whose widths and heights are classified into bins and refined by an offset (layout kind `bin`)."""


class MultiHeadDetect(AnchorHead):
    """One 1×1 convolution per head and level."""

    def __init__(self, layout: HeadLayout, anchors_px: Sequence[Sequence[float]], channels: Sequence[int]) -> None:
        super().__init__(layout, anchors_px, channels)
        classes = [layout.nc if layout.full_head else len(own) for own in layout.head_classes]
        self.heads = nn.ModuleList(_level_convs(layout, count, channels) for count in classes)
        self.class_columns = _class_columns(layout)

    def forward(self, inputs: list[Tensor]) -> list[Tensor]:
        return [
            self._raw_map(conv, x)
            for convs in self.heads
            for conv, x in zip(convs, inputs, strict=True)  # type: ignore[call-overload]
        ]


class MultiHeadDetectAttention(MultiHeadDetect):
    """MultiHeadDetect with an attention block of its own before every convolution."""

    def __init__(self, layout: HeadLayout, anchors_px: Sequence[Sequence[float]], channels: Sequence[int]) -> None:
        super().__init__(layout, anchors_px, channels)
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


def prediction_convs(convs: nn.ModuleList) -> list[nn.Conv2d]:
    return [conv for conv in convs if isinstance(conv, nn.Conv2d)]


def _level_convs(layout: HeadLayout, classes: int, channels: Sequence[int]) -> nn.ModuleList:
    box = 4 if layout.kind == "anchor" else 2 + 2 * (layout.bins + 1)
    convs = [nn.Conv2d(c, layout.anchors_per_cell * (box + 1 + classes), 1) for c in channels]
    for conv, stride in zip(convs, layout.strides, strict=True):
        add_prior(conv, layout, classes, stride)
    return nn.ModuleList(convs)


@torch.no_grad()
def add_prior(conv: nn.Conv2d, layout: HeadLayout, classes: int, stride: int) -> None:
    """Start a prediction convolution at the expected rates: no flood of positives to unlearn first."""
    assert conv.bias is not None
    bias = conv.bias.view(layout.anchors_per_cell, -1)
    objectness = bias.shape[1] - classes - 1
    if layout.kind == "bin":
        for side in range(2):
            first = 2 + side * (layout.bins + 1) + 1
            bias[:, first : first + layout.bins] += _class_prior(layout.bins)
    bias[:, objectness] += math.log(_PRIOR_OBJECTS / (_PRIOR_IMAGE / stride) ** 2)
    bias[:, objectness + 1 :] += _class_prior(classes)


def _class_prior(classes: int) -> float:
    return math.log(_PRIOR_CLASS / (classes - 0.99))


def _class_columns(layout: HeadLayout) -> Tensor:
    """`[heads, nc]`: the class channel of each class in each head, or one past the last for a class it does not own."""
    rows = []
    for own in layout.head_classes:
        absent = layout.nc if layout.full_head else len(own)
        place = {c: (c if layout.full_head else i) for i, c in enumerate(own)}
        rows.append([place.get(c, absent) for c in range(layout.nc)])
    return torch.tensor(rows)


HEADS: dict[str, type[AnchorHead]] = {
    head.__name__: head for head in (Detect, IDetect, IAuxDetect, IBin, MultiHeadDetect, MultiHeadDetectAttention)
}
"""What a model file may end in."""
