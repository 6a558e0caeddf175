"""How long the filters before BatchNorm are, for weights that have lost it.

What BatchNorm makes of a filter does not depend on its length, but how fast the filter turns does: one that is twice as
long gets half the gradient, which turns it by a quarter. Training settles this by itself. Steps, which are at right
angles to a filter, lengthen it, weight decay shortens it, and where both are equal

    length⁴ = (rate / 2 decay) · (length · gradient)²        with rate = learning rate / (1 - momentum),

whose last factor does not depend on the length. Files with BatchNorm folded in have lost the lengths. With that of
fresh filters, those of the first layer turn by some per cent in a step, ten times as fast as any other, and neither the
layers above nor the running statistics can follow. So lengths are computed from measured gradients, with the settings
the published YOLOX was trained with rather than those of the run: its learning rate then means what it does for a file
that has BatchNorm.

Gradients are those of the run's batches. Where these are smaller than in the published training, gradients are longer,
and filters become rather too long than too short: they learn slowly, but lose nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from yolofast.engine.gears import tried_only
from yolofast.engine.measured_batch_norm import filters_before, lengths_of, scale_filters
from yolofast.engine.step import TrainStep
from yolofast.ranks import world
from yolofast.structures import Batch

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
    with tried_only(step), _asking_for_gradients(step.model, filters):
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
def _asking_for_gradients(model: nn.Module, filters: Sequence[Tensor]) -> Iterator[None]:
    """In training mode; also those that only learn in a later phase."""
    was_training, asked = model.training, [weight.requires_grad for weight in filters]
    model.train()
    for weight in filters:
        weight.requires_grad_(True)
    try:
        yield
    finally:
        model.train(was_training)
        for weight, before in zip(filters, asked, strict=True):
            weight.requires_grad_(before)
