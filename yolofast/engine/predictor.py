"""One or several networks asked about a batch, each once or in several ways.

All predictions are joined, and suppression afterwards decides which of them to keep: a box that one network is surer of
wins. Averaging instead would need networks whose predictions correspond one to one.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from yolofast.augment.plan import FILL
from yolofast.decoding import decode
from yolofast.engine.precision import Precision
from yolofast.errors import UserError
from yolofast.evaluate.tta import predict_augmented
from yolofast.model.network import Network


class Predictor:
    """`predictor(images)` takes a batch as loaders make it and gives decoded predictions `[B, n, 5 + nc]`."""

    def __init__(self, models: Sequence[Network], precision: Precision) -> None:
        self.precision = precision
        self.models = [_placed(model, precision.device) for model in models]
        self.stride = max(stride for model in self.models for stride in model.layout.strides)
        self.inputs = self.models[0].inputs
        """How pictures are laid out and coloured; each network then scales the levels as it wants."""
        for model in self.models:
            if (model.inputs.rgb, model.inputs.top_left) != (self.inputs.rgb, self.inputs.top_left):
                what = "these networks want their pictures prepared differently, so they cannot be asked together"
                raise UserError(what, fix="name weights of YOLOv7 only, or of YOLOX only")

    @torch.no_grad()
    def __call__(self, images: Tensor, augment: bool = False) -> Tensor:
        """`augment`: at three sizes, once mirrored."""
        images = images.to(self.precision.device, non_blocking=True)
        return torch.cat([self._ask(model, images, augment) for model in self.models], dim=1)

    def _ask(self, model: Network, images: Tensor, augment: bool) -> Tensor:
        inputs = model.inputs.as_input(images).contiguous(memory_format=torch.channels_last)
        if not augment:
            return self._look(model, inputs)
        fill = FILL / model.inputs.divisor
        return predict_augmented(lambda view: self._look(model, view), inputs, max(model.layout.strides), fill)

    def _look(self, model: Network, inputs: Tensor) -> Tensor:
        with self.precision.autocast():
            raw = model(inputs)
        return decode(raw, model)


def _placed(model: Network, device: torch.device) -> Network:
    placed: Network = model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return placed.eval()
