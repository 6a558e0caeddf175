"""Statistics for weights that have lost theirs: files made for inference have BatchNorm folded into the convolutions.

Such a file computes the right thing as long as nobody trains it. In training BatchNorm subtracts the mean and divides
by the deviation of the batch, which those weights never meant to happen, and what was learnt is gone with the first
batch. Here mean and variance are measured on some batches, and scale and shift are set to undo them: the network
computes what it did, and BatchNorm does in training what it does in inference.

Folding has also divided the convolutions by the deviation of what they give, which before BatchNorm does not matter for
the result, but for learning: a filter of a hundredth of the length gets a hundred times the gradient, and one step is
the end of it. So filters are given the length that fresh ones have, and BatchNorm takes it back. Those that learn get
longer than that afterwards (`filter_lengths.py`).
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from yolofast.ranks import world

_ROUNDING = 1e-5
_FRESH_LENGTH = 3**-0.5
"""Of a filter as torch makes them: n values between ±1/√n."""


def has_folded_batch_norm(model: nn.Module) -> bool:
    """No layer subtracts or scales anything. A fresh layer does: it divides by √(1 + ε)."""
    layers = _layers(model)
    return bool(layers) and all(_is_folded(layer) for layer in layers)


def filters_before(model: nn.Module) -> dict[_BatchNorm, Tensor]:
    """The weights of the convolution before each of the layers, where a block says which one that is."""
    blocks = [(getattr(module, "conv", None), getattr(module, "bn", None)) for module in model.modules()]
    return {bn: conv.weight for conv, bn in blocks if isinstance(conv, nn.Conv2d) and isinstance(bn, _BatchNorm)}


def lengths_of(filters: Tensor) -> Tensor:
    return filters.detach().double().flatten(1).square().sum(1).sqrt()


@torch.no_grad()
def scale_filters(layer: _BatchNorm, filters: Tensor, factor: Tensor) -> None:
    """Makes each filter so many times as long, and the layer behind it undo that."""
    assert layer.running_mean is not None and layer.running_var is not None
    before = layer.running_var.double()
    after = before * factor**2
    layer.weight.mul_(((after + layer.eps) / (before + layer.eps)).sqrt() / factor)
    layer.running_mean.mul_(factor)
    layer.running_var.copy_(after)
    filters.mul_(factor.view(-1, 1, 1, 1))


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
    filters = filters_before(model)
    for layer, moments in measured.items():
        if moments.count:  # auxiliary layers do not run in inference
            _set(layer, *moments.mean_and_variance(), filters.get(layer))
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


def _set(layer: _BatchNorm, mean: Tensor, variance: Tensor, filters: Tensor | None) -> None:
    scale, shift = _scale_and_shift(layer)
    assert layer.running_mean is not None and layer.running_var is not None
    layer.weight.copy_(scale * (variance + layer.eps).sqrt())
    layer.bias.copy_(shift + scale * mean)
    layer.running_mean.copy_(mean)
    layer.running_var.copy_(variance)
    if filters is not None:
        length = lengths_of(filters)
        scale_filters(layer, filters, torch.where(length > _ROUNDING, _FRESH_LENGTH / length, 1.0))
