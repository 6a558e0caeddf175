"""Statistics for weights that have lost theirs: files made for inference have BatchNorm folded into the convolutions.

Such a file computes the right thing as long as nobody trains it. In training BatchNorm subtracts the mean and divides
by the deviation of the batch, which those weights never meant to happen, and what was learnt is gone with the first
batch. Here mean and variance are measured on some batches, and scale and shift are set to undo them: the network
computes what it did, and BatchNorm does in training what it does in inference.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from yolofast.ranks import world

_ROUNDING = 1e-5


def has_folded_batch_norm(model: nn.Module) -> bool:
    """No layer subtracts or scales anything. A fresh layer does: it divides by √(1 + ε)."""
    layers = _layers(model)
    return bool(layers) and all(_is_folded(layer) for layer in layers)


@torch.no_grad()
def measure_batch_norm(model: nn.Module, batches: Iterable[Tensor]) -> None:
    """`batches` are inputs of the network, as in training. Leaves the model in the mode it was in."""
    was_training = model.training
    model.eval()  # where the layers do what they were saved to do
    measured = {layer: _Moments() for layer in _layers(model)}
    hooks = [layer.register_forward_pre_hook(moments.add) for layer, moments in measured.items()]
    try:
        for images in batches:
            model(images)
    finally:
        for hook in hooks:
            hook.remove()
        model.train(was_training)
    for layer, moments in measured.items():
        if moments.count:  # auxiliary layers do not run in inference
            _set(layer, *moments.mean_and_variance())
    if world() > 1:  # every rank has seen other images
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)


class _Moments:
    def __init__(self) -> None:
        self._sums: Tensor | float = 0.0
        self.count = 0

    def add(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        """As a hook before a layer."""
        values = inputs[0].double().transpose(0, 1).flatten(1)
        self._sums = self._sums + torch.stack((values.sum(1), values.square().sum(1)))
        self.count += values.shape[1]

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        assert isinstance(self._sums, Tensor)
        mean, square = self._sums / self.count
        return mean, (square - mean.square()).clamp(min=0)


def _layers(model: nn.Module) -> list[_BatchNorm]:
    return [module for module in model.modules() if isinstance(module, _BatchNorm) and module.affine]


def _scale_and_shift(layer: _BatchNorm) -> tuple[Tensor, Tensor]:
    """What the layer does in inference, as x · scale + shift."""
    assert layer.running_mean is not None and layer.running_var is not None
    scale = layer.weight.double() / (layer.running_var.double() + layer.eps).sqrt()
    return scale, layer.bias.double() - layer.running_mean.double() * scale


def _is_folded(layer: _BatchNorm) -> bool:
    scale = _scale_and_shift(layer)[0]
    assert layer.running_mean is not None
    return bool(((scale - 1).abs() < _ROUNDING).all() and not layer.running_mean.any())


def _set(layer: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    scale, shift = _scale_and_shift(layer)
    assert layer.running_mean is not None and layer.running_var is not None
    layer.weight.copy_(scale * (variance + layer.eps).sqrt())
    layer.bias.copy_(shift + scale * mean)
    layer.running_mean.copy_(mean)
    layer.running_var.copy_(variance)
