"""YOLOX: CSPDarknet, a feature pyramid up and down again, and a head with a branch for classes and one for boxes.

Written as modules and not as a graph, because published weights name its parts and not its layers:
`backbone.backbone.dark5`, `backbone.C3_p4`, `head.cls_convs.0`. Note that `backbone.` is before the neck's names too;
`Network.layers` tells the two apart. Convolutions are YOLOv7's `Conv`.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from yolofast.fused.concat import ConcatBuffer, ConcatSlot
from yolofast.fused.fork import fork
from yolofast.fused.predict import can_be_folded, joint_prediction
from yolofast.model.blocks import Conv, ReOrg, Upsample, pool_pyramid, side_by_side
from yolofast.model.contract import Layer, ModelFamily, Network
from yolofast.model.yolox_config import FAMILY, YoloXConfig, read_yolox, yolox_of
from yolofast.precision import NEW_KERNELS, kernels_for
from yolofast.structures import HeadLayout, InputConvention, ValidationConvention

STRIDES = (8, 16, 32)
_BACKBONE = ("stem", "dark2", "dark3", "dark4", "dark5")
_NECK = ("lateral_conv0", "C3_p4", "reduce_conv1", "C3_p3", "bu_conv2", "C3_n3", "bu_conv1", "C3_n4")
_HEAD = ("stems", "cls_convs", "reg_convs", "cls_preds", "reg_preds", "obj_preds")
# Class and objectness start at a probability of 1 %.
_PRIOR = -math.log(99)


class DepthwiseConv(nn.Module):
    """A convolution in two: each channel by itself, then all channels at each place (YOLOX-nano)."""

    def __init__(self, c1: int, c2: int, k: int, s: int = 1) -> None:
        super().__init__()
        self.dconv = Conv(c1, c1, k, s, g=c1)
        self.pconv = Conv(c1, c2, 1)

    def forward(self, x: Tensor, slot: ConcatSlot | None = None, plus: Tensor | None = None) -> Tensor:
        return self.pconv(self.dconv(x), slot, plus)  # type: ignore[no-any-return]


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

    def forward(self, x: Tensor, slot: ConcatSlot | None = None) -> Tensor:
        x, plus = fork(x, 2) if self.shortcut else (x, None)
        return self.conv2(self.conv1(x), slot, plus)  # type: ignore[no-any-return]


class CspLayer(nn.Module):
    """Two halves by 1×1; bottlenecks on the first; both joined by 1×1."""

    def __init__(self, c1: int, c2: int, n: int, *, shortcut: bool, depthwise: bool) -> None:
        super().__init__()
        half = c2 // 2
        self.conv1 = Conv(c1, half, 1)
        self.conv2 = Conv(c1, half, 1)
        self.conv3 = Conv(2 * half, c2, 1)
        self.m = nn.Sequential(*(Bottleneck(half, shortcut=shortcut, depthwise=depthwise) for _ in range(n)))

    def forward(self, x: Tensor, slot: ConcatSlot | None = None) -> Tensor:
        both = ConcatBuffer([self.conv2.out_channels] * 2)
        deep, straight = side_by_side((self.conv1, self.conv2), x, (None, both.slot(1)))
        for block in self.m:
            deep = block(deep, both.slot(0) if block is self.m[-1] else None)
        return self.conv3(both.concat((deep, straight)), slot)  # type: ignore[no-any-return]


class SppBottleneck(nn.Module):
    """Spatial pyramid pooling between two 1×1 convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.conv1 = Conv(channels, half, 1)
        self.conv2 = Conv(4 * half, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(pool_pyramid(self.conv1, x))  # type: ignore[no-any-return]


class YoloX(Network):
    """`model(images)` gives three raw maps `[B, 1, H, W, 5 + nc]`: x, y, w, h, objectness, classes."""

    family = FAMILY
    numbered = False
    validation = ValidationConvention(conf=0.01, multi_label=False)

    def __init__(self, config: YoloXConfig) -> None:
        super().__init__()
        self.config, self.nc, self.names = config, config.nc, config.names
        self.inputs = InputConvention(
            rgb=False, divisor=1.0, top_left=True, whole=True, linear=True, size=config.image_size
        )
        self.backbone = Pafpn(config)
        self.head = DecoupledHead(config)

    @property
    def layers(self) -> tuple[Layer, ...]:
        parts = (
            ("backbone", self.backbone.backbone, _BACKBONE),
            ("neck", self.backbone, _NECK),
            ("head", self.head, _HEAD),
        )
        return tuple(Layer(part, name, owner.get_submodule(name)) for part, owner, names in parts for name in names)

    @property
    def layout(self) -> HeadLayout:
        return self.head.layout

    @property
    def anchors_px(self) -> Tensor:
        return self.head.cells_px

    @property
    def graph_yaml(self) -> dict[str, Any]:
        return self.config.to_dict()

    def forward(self, images: Tensor) -> list[Tensor]:
        return self.head(self.backbone(images))  # type: ignore[no-any-return]


class CspStage(nn.Sequential):
    """A convolution that halves the map, and a CSP layer."""

    def forward(self, x: Tensor, slot: ConcatSlot | None = None) -> Tensor:
        down, csp = self
        return csp(down(x), slot)  # type: ignore[no-any-return]


class CspDarknet(nn.Module):
    """The maps at strides 8, 16 and 32."""

    def __init__(self, config: YoloXConfig) -> None:
        super().__init__()
        c, n, depthwise = config.base_channels, config.bottlenecks, config.depthwise

        def stage(c1: int, c2: int, n: int) -> CspStage:
            return CspStage(
                conv3(c1, c2, 2, depthwise=depthwise), CspLayer(c2, c2, n, shortcut=True, depthwise=depthwise)
            )

        self.stem = Focus(3, c)
        self.dark2 = stage(c, 2 * c, n)
        self.dark3 = stage(2 * c, 4 * c, 3 * n)
        self.dark4 = stage(4 * c, 8 * c, 3 * n)
        self.dark5 = nn.Sequential(
            conv3(8 * c, 16 * c, 2, depthwise=depthwise),
            SppBottleneck(16 * c),
            CspLayer(16 * c, 16 * c, n, shortcut=False, depthwise=depthwise),
        )

    def forward(
        self, images: Tensor, of_fine: ConcatSlot | None = None, of_middle: ConcatSlot | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        fine, below = fork(self.dark3(self.dark2(self.stem(images)), of_fine), 2)
        middle, last = fork(self.dark4(below, of_middle), 2)
        return fine, middle, self.dark5(last)


class Pafpn(nn.Module):
    """The backbone and, behind it, the path down to the finest map and up again."""

    def __init__(self, config: YoloXConfig) -> None:
        super().__init__()
        c, depthwise = config.base_channels, config.depthwise
        fine, middle, coarse = 4 * c, 8 * c, 16 * c

        def csp(c1: int, c2: int) -> CspLayer:
            return CspLayer(c1, c2, config.bottlenecks, shortcut=False, depthwise=depthwise)

        self._joint = [middle] * 2, [fine] * 2, [fine] * 2, [middle] * 2
        self.backbone = CspDarknet(config)
        self.lateral_conv0 = Conv(coarse, middle, 1)
        self.C3_p4 = csp(2 * middle, middle)
        self.reduce_conv1 = Conv(middle, fine, 1)
        self.C3_p3 = csp(2 * fine, fine)
        self.bu_conv2 = conv3(fine, fine, 2, depthwise=depthwise)
        self.C3_n3 = csp(2 * fine, middle)
        self.bu_conv1 = conv3(middle, middle, 2, depthwise=depthwise)
        self.C3_n4 = csp(2 * middle, coarse)

    def forward(self, images: Tensor) -> list[Tensor]:
        in_p4, in_p3, in_n3, in_n4 = (ConcatBuffer(channels) for channels in self._joint)
        fine, middle, coarse = self.backbone(images, in_p3.slot(1, only=False), in_p4.slot(1, only=False))
        top, upper = fork(self.lateral_conv0(coarse, in_n4.slot(1)), 2)
        p4 = self.C3_p4(in_p4.concat((_doubled(upper, in_p4.slot(0)), middle)))
        between, upper = fork(self.reduce_conv1(p4, in_n3.slot(1)), 2)
        p3, lower = fork(self.C3_p3(in_p3.concat((_doubled(upper, in_p3.slot(0)), fine))), 2)
        p4, last = fork(self.C3_n3(in_n3.concat((self.bu_conv2(lower, in_n3.slot(0)), between))), 2)
        p5 = self.C3_n4(in_n4.concat((self.bu_conv1(last, in_n4.slot(0)), top)))
        return [p3, p4, p5]


_doubled = Upsample(scale_factor=2.0, mode="nearest")


class DecoupledHead(nn.Module):
    """Per level: a 1×1 stem, a branch of two 3×3 for classes, and one for box and objectness."""

    cells_px: Tensor

    def __init__(self, config: YoloXConfig) -> None:
        super().__init__()
        c, depthwise = config.base_channels, config.depthwise
        inner = 4 * c
        self.layout = HeadLayout(kind="point", nc=config.nc, strides=STRIDES, anchors_per_cell=1)

        def branches() -> nn.ModuleList:
            pairs = ([conv3(inner, inner, depthwise=depthwise) for _ in range(2)] for _ in STRIDES)
            return nn.ModuleList(nn.Sequential(*pair) for pair in pairs)

        self.cls_convs = branches()
        self.reg_convs = branches()
        self.cls_preds = _predictions(inner, config.nc, prior=_PRIOR)
        self.reg_preds = _predictions(inner, 4)
        self.obj_preds = _predictions(inner, 1, prior=_PRIOR)
        self.stems = nn.ModuleList(Conv(channels, inner, 1) for channels in (4 * c, 8 * c, 16 * c))
        # There are no anchors; what asks for their size gets that of the cells. Published files know nothing of it.
        cells = torch.tensor(STRIDES, dtype=torch.float32).view(-1, 1, 1).expand(-1, 1, 2).clone()
        self.register_buffer("cells_px", cells, persistent=False)

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        return [self._predict(level, x) for level, x in enumerate(maps)]

    def _predict(self, level: int, x: Tensor) -> Tensor:
        of_classes, of_box = self.cls_convs[level], self.reg_convs[level]
        assert isinstance(of_classes, nn.Sequential) and isinstance(of_box, nn.Sequential)
        x = self.stems[level](x)
        reg, obj, cls = self.reg_preds[level], self.obj_preds[level], self.cls_preds[level]
        as_one = NEW_KERNELS and kernels_for(x) and all(can_be_folded(x, conv) for conv in (reg, obj, cls))
        both = ConcatBuffer([x.shape[1]] * 2) if as_one else None
        slots = (None, None) if both is None else (both.slot(0), both.slot(1))
        classes, box = side_by_side((of_classes[0], of_box[0]), x, (None, None))
        box, classes = of_box[1](box, slots[0]), of_classes[1](classes, slots[1])
        if both is not None:
            return joint_prediction(both.concat((box, classes)), ((reg, obj), (cls,)))  # type: ignore[arg-type]
        box, objectness = fork(box, 2)
        raw = torch.cat((reg(box), obj(objectness), cls(classes)), dim=1)
        return raw.permute(0, 2, 3, 1)[:, None]  # a view


def _predictions(channels: int, outputs: int, prior: float | None = None) -> nn.ModuleList:
    convs = [nn.Conv2d(channels, outputs, 1) for _ in STRIDES]
    for conv in convs:
        if prior is not None and conv.bias is not None:
            nn.init.constant_(conv.bias, prior)
    return nn.ModuleList(convs)


YOLOX = ModelFamily(title="YOLOX", build=lambda file, nc: YoloX(read_yolox(file, nc)), graph_of=yolox_of)
