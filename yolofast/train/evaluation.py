"""The evaluations of a run: on its validation split, by all ranks, as one process that evaluates all batches would."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from yolofast.config.train import TrainConfig
from yolofast.detect.accumulator import Evaluated, MetricAccumulator
from yolofast.detect.evaluation import accumulate_metrics
from yolofast.detect.predictor import to_validate
from yolofast.image_index import ImageIndex
from yolofast.loader.validation_batches import ValidationBatches, validation_batches
from yolofast.loss.criterion import Criterion
from yolofast.model.network import Network
from yolofast.precision import Precision
from yolofast.ranks import is_first, rank, world
from yolofast.store.images import OpenStore
from yolofast.train.distributed.join import open_images_together
from yolofast.train.families.family import Rules
from yolofast.train.guard import fix_if_memory_runs_out


@dataclass(frozen=True)
class RunEvaluation:
    rules: Rules
    precision: Precision
    index: ImageIndex
    batches: ValidationBatches

    def of_all_ranks(self, model: Network, epoch: int, criterion: Criterion | None = None) -> Evaluated:
        """Of the weights the run had after that epoch; without a criterion there is no loss."""
        config = self.rules.config
        smaller = f"--test-batch-size {max(_batch_size(config) // 2, 1)}"
        with fix_if_memory_runs_out("in the evaluation", smaller):
            own = accumulate_metrics(
                model,
                _own_part(self.batches),
                self.index,
                self.precision,
                criterion=criterion,
                thresholds=to_validate(model, conf=self.rules.conf, iou=self.rules.iou),
            )
        return dataclasses.replace(_joint_result(own, v5_metric=config.v5_metric), epoch=epoch)


def _batch_size(config: TrainConfig) -> int:
    return config.test_batch_size or 2 * config.batch_size


def validation_of(
    config: TrainConfig, index: ImageIndex, model: Network, shape: tuple[int, int], opened: Callable[[OpenStore], None]
) -> ValidationBatches:
    height, width = shape
    cache = "auto" if config.cache in ("gpu", "jpeg-gpu") else config.cache
    images = open_images_together(
        index, width, height, cache, among=("disk", "off"), augmented=model.inputs.linear, say=lambda text: None,
        opened=opened,
    )  # fmt: skip
    batch, stride = _batch_size(config), max(model.layout.strides)
    device = next(model.parameters()).device  # where batches are kept between the epochs
    wide = width, height
    return validation_batches(index, images, batch, wide, stride, rect=True, inputs=model.inputs, device=device)


def measure_again(model: nn.Module, batches: Iterable[Tensor]) -> None:
    """BatchNorm's statistics become the means over these batches, of what each layer gets when all before it normalise
    by the batch; layers that nothing goes through keep theirs."""
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
    before = [(layer.training, layer.momentum, [value.clone() for value in _statistics(layer)]) for layer in layers]
    for layer in layers:
        layer.train()
        layer.momentum = None  # torch then takes the mean of all batches
        layer.reset_running_stats()
    for images in batches:
        model(images)
    for layer, (training, momentum, (*old, count)) in zip(layers, before, strict=True):
        *statistics, counted = _statistics(layer)
        for value, earlier in zip(statistics, old, strict=True):
            if not counted:
                value.copy_(earlier)
            elif world() > 1:  # every rank has seen other images
                dist.broadcast(value, src=0)
        counted.copy_(count)
        layer.momentum = momentum
        layer.train(training)


def _statistics(layer: _BatchNorm) -> list[Tensor]:
    """The count last: checkpoints continue to count the batches of training."""
    values = [layer.running_mean, layer.running_var, layer.num_batches_tracked]
    return [value for value in values if value is not None]


def _own_part(batches: ValidationBatches) -> ValidationBatches:
    """Every N-th batch of N ranks: neighbours have similar shapes and cost the same."""
    if world() == 1:
        return batches
    own = slice(rank(), None, world())
    return dataclasses.replace(batches, parts=batches.parts[own], shapes=batches.shapes[own])


def _joint_result(own: MetricAccumulator, *, v5_metric: bool) -> Evaluated:
    """The first rank puts the parts together and sends the result to the others, so that all decide alike."""
    if world() == 1:
        return own.result(v5_metric=v5_metric)
    all_of_them: list[MetricAccumulator] | None = [own] * world() if is_first() else None
    dist.gather_object(own, all_of_them)
    result: list[Evaluated | None] = [None]
    if all_of_them is not None:
        whole, *others = all_of_them
        for other in others:
            whole.merge(other)
        result = [whole.result(v5_metric=v5_metric)]
    dist.broadcast_object_list(result)
    assert result[0] is not None
    return result[0]
