"""Predictions of one network or an ensemble, with test-time augmentation, and the thresholds that make detections.

The predictions of all networks and augmentations are joined, and suppression keeps the surest. Averaging instead would
need predictions that correspond one to one. Test-time augmentation takes about 2.1 times as long.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from yolofast.augment.plan import FILL
from yolofast.decoding import decode
from yolofast.errors import UserError
from yolofast.evaluate.nms import Thresholds
from yolofast.model.network import Network
from yolofast.precision import Precision


def to_validate(model: Network, conf: float | None = None, iou: float = 0.65, most: int = 300) -> Thresholds:
    """As the network's authors validate it, except for what is given."""
    own = model.validation
    return Thresholds(
        conf=own.conf if conf is None else conf, iou=iou, multi_label=own.multi_label, max_detections=most
    )


_VARIANTS = ((1.0, False), (0.83, True), (0.67, False))
"""Scale, and whether left and right are swapped."""


def predict_augmented(
    predict: Callable[[Tensor], Tensor], images: Tensor, stride: int, fill: float = 114 / 255
) -> Tensor:
    """Predictions `[B, n, 5 + nc]` of all augmentations, one after the other, in pixels of `images` `[B, 3, H, W]`.

    `predict` gives decoded predictions of images whose sides are multiples of `stride`, the network's largest.
    `fill` is the grey that images are padded with, in the units of `images`.
    """
    return torch.cat(
        [_predict_one(predict, images, stride, fill, scale, mirrored) for scale, mirrored in _VARIANTS], dim=1
    )


def _predict_one(
    predict: Callable[[Tensor], Tensor], images: Tensor, stride: int, fill: float, scale: float, mirrored: bool
) -> Tensor:
    height, width = images.shape[2:]
    low, narrow = round(height * scale), round(width * scale)
    changed = images.flip(3) if mirrored else images
    if (low, narrow) != (height, width):
        changed = F.interpolate(changed, size=(low, narrow), mode="bilinear", align_corners=False)
        changed = F.pad(changed, (0, -narrow % stride, 0, -low % stride), value=fill)
    found = predict(changed)
    # Sides are whole pixels, so the true scale differs a little from the nominal one, and between the axes.
    to_x, to_y = width / narrow, height / low
    x, y, w, h = found[..., :4].unbind(-1)
    x, y, w, h = x * to_x, y * to_y, w * to_x, h * to_y
    boxes = torch.stack((width - x if mirrored else x, y, w, h), dim=-1)
    return torch.cat((boxes, found[..., 4:]), dim=-1)


class Predictor:
    """`predictor(images)` takes a batch as loaders make it and gives decoded predictions `[B, n, 5 + nc]`."""

    def __init__(self, models: Sequence[Network], precision: Precision) -> None:
        self.precision = precision
        self.models = [_placed(model, precision.device) for model in models]
        self.stride = max(stride for model in self.models for stride in model.layout.strides)
        self.inputs = self.models[0].inputs
        """How images are laid out and coloured; each network then scales the levels itself."""
        for model in self.models:
            if (model.inputs.rgb, model.inputs.top_left) != (self.inputs.rgb, self.inputs.top_left):
                what = "these networks need their images prepared differently, so they cannot form an ensemble"
                raise UserError(what, fix="name weights of YOLOv7 only, or of YOLOX only")

    @torch.no_grad()
    def __call__(self, images: Tensor, augment: bool = False) -> Tensor:
        """`augment`: at three sizes, one of them mirrored."""
        images = images.to(self.precision.device, non_blocking=True)
        return torch.cat([self._predict(model, images, augment) for model in self.models], dim=1)

    def _predict(self, model: Network, images: Tensor, augment: bool) -> Tensor:
        inputs = model.inputs.as_input(images).contiguous(memory_format=torch.channels_last)
        if not augment:
            return self._forward(model, inputs)
        fill = FILL / model.inputs.divisor
        return predict_augmented(lambda changed: self._forward(model, changed), inputs, max(model.layout.strides), fill)

    def _forward(self, model: Network, inputs: Tensor) -> Tensor:
        with self.precision.autocast():
            raw = model(inputs)
        return decode(raw, model)


def _placed(model: Network, device: torch.device) -> Network:
    placed: Network = model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return placed.eval()
