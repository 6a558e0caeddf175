"""Weights with BatchNorm folded into the convolutions, made ready to learn: statistics first, then filter lengths.

Such a file computes the right thing until it is trained. In training BatchNorm normalises by the batch, which these
weights never meant, and what was learnt is gone with the first batch. So mean and variance are measured on the run's
first batches, and scale and shift are set to undo them: the network computes what it did.

Folding has also divided the filters by the deviation of their outputs. The result does not depend on a filter's length,
but learning does: one that is twice as long gets half the gradient, which turns it by a quarter. Steps lengthen a
filter, weight decay shortens it, and training settles where both are equal:

    length⁴ = (rate / 2 decay) · (length · gradient)²        with rate = learning rate / (1 - momentum),

whose last factor does not depend on the length. With the length of fresh filters, those of the first layer would turn
by some per cent in a step, ten times as fast as any other. So lengths are computed from measured gradients, with the
settings the published YOLOX was trained with: the run's learning rate then means what it does for a file with
BatchNorm. Batches smaller than the published ones make filters rather too long than too short: they learn slowly, but
lose nothing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from yolofast.model.contract import Network
from yolofast.ranks import world
from yolofast.structures import Batch
from yolofast.train.finetune.freeze_plan import FreezePlan
from yolofast.train.gears.gears import tried_only
from yolofast.train.step import TrainStep

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


_RATE, _DECAY = 0.01 / (1 - 0.9), 5e-4
_FAR, _HALF_OF_FLOAT16 = 10, 32_000
"""What a filter gives is seldom farther from its mean than so many deviations, and has to have room in float16."""


def settle_filter_lengths(
    step: TrainStep, batches: Iterable[Batch], learning: Collection[nn.Module], per_update: int
) -> Tensor:
    """Lengthens filters of the modules that are learning now or later; the network computes what it did.

    BatchNorm has statistics by now, and filters have the length of fresh ones. `per_update` is how many batches'
    gradients are added up. Returns the lengths of all these filters, of which there may be none.
    """
    own = {id(module) for part in learning for module in part.modules()}
    filters = {layer: weight for layer, weight in filters_before(step.model).items() if id(layer) in own}
    gradients = _gradient_lengths(step, list(filters.values()), batches) if filters else []
    for (layer, weight), gradient in zip(filters.items(), gradients, strict=True):
        scale_filters(layer, weight, _growth(layer, lengths_of(weight), gradient * per_update))
    return torch.cat([torch.zeros(0), *(lengths_of(weight).cpu() for weight in filters.values())])


def _growth(layer: _BatchNorm, length: Tensor, gradient: Tensor) -> Tensor:
    """How many times as long each filter has to be; those that learn little, or do nothing, stay as they are."""
    assert layer.running_mean is not None and layer.running_var is not None
    settled = ((_RATE / (2 * _DECAY)) ** 0.5 * length * gradient).sqrt()
    reach = layer.running_mean.double().abs() + _FAR * layer.running_var.double().sqrt()
    growth = torch.where(length > 0, settled / length, 1.0)
    return torch.minimum(growth, _HALF_OF_FLOAT16 / reach).clamp(min=1.0)


def _gradient_lengths(step: TrainStep, filters: Sequence[Tensor], batches: Iterable[Batch]) -> list[Tensor]:
    """Of each filter: the root of the mean square over the batches. Leaves the step as it was."""
    sums = [torch.zeros(len(weight), dtype=torch.float64, device=weight.device) for weight in filters]
    counted = 0
    with tried_only(step), _requiring_gradients(step.model, filters):
        for batch in batches:
            gradients = _gradients(step, step.on_device(batch), filters)
            counted += any(bool(gradient.any()) for gradient in gradients)  # none where float16 has overflown
            for total, gradient in zip(sums, gradients, strict=True):
                total += lengths_of(gradient).square()
    return [(total / max(counted, 1)).sqrt() for total in sums]


def _gradients(step: TrainStep, batch: Batch, filters: Sequence[Tensor]) -> list[Tensor]:
    """By the model itself: several ranks would wait for gradients of all parameters."""
    with step.precision.autocast():
        raw = step.model(step.model.inputs.as_input(batch.images))  # type: ignore[operator,union-attr]
    loss = step.loss_scale.scaled(step.criterion(raw, batch.targets).total)
    found = torch.autograd.grad(loss, filters, allow_unused=True)
    gradients = [torch.zeros_like(w) if g is None else g for w, g in zip(filters, found, strict=True)]
    for gradient in gradients if world() > 1 else ():
        dist.all_reduce(gradient)
        gradient /= world()
    step.loss_scale.unscale(gradients)
    return [gradient.nan_to_num(0.0, 0.0, 0.0) for gradient in gradients]


@contextmanager
def _requiring_gradients(model: nn.Module, filters: Sequence[Tensor]) -> Iterator[None]:
    """In training mode; also those that only learn in a later phase."""
    was_training, required = model.training, [weight.requires_grad for weight in filters]
    model.train()
    for weight in filters:
        weight.requires_grad_(True)
    try:
        yield
    finally:
        model.train(was_training)
        for weight, before in zip(filters, required, strict=True):
            weight.requires_grad_(before)


_MEASURED_BATCHES = 8


def unfold_batch_norm(
    step: TrainStep, plan: FreezePlan, batches: Callable[[], Iterator[Batch]], per_update: int,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """The network still computes what it did. `batches` starts an epoch; gradients of `per_update` are added up."""
    model = step.model
    assert isinstance(model, Network)

    def first() -> Iterator[Batch]:
        return islice(batches(), _MEASURED_BATCHES)

    inputs = (model.inputs.as_input(step.on_device(batch).images).float() for batch in first())
    measure_batch_norm(model, inputs)
    learning = [
        layer.module for index, layer in enumerate(model.layers) if any(index in p.learning for p in plan.phases)
    ]
    lengths = settle_filter_lengths(step, first(), learning, per_update)
    step.ema.model.load_state_dict(model.state_dict())
    measured = "its statistics"
    if len(lengths):
        reach = f"{float(lengths.min()):.2g} to {float(lengths.max()):.2g}"
        measured += f" and the lengths with which filters learn at the usual pace ({reach})"
    what = f"BatchNorm was folded away; {measured} are measured on the first batches"
    say(f"weights: {what}. The network computes what it did")
