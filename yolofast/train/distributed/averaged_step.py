"""A step of one rank among several: gradients are averaged over the ranks before weights move.

`--sync-bn`: BatchNorm over all ranks is torch's SyncBatchNorm on GPUs. For the CPU, where torch has none, it is a plain
version with two differentiable sums per layer: slow, for trials and tests. It computes squares after the mean was
subtracted. So it rounds less than torch's layer for channels_last maps on the CPU (off by about 10⁻⁶ in float32).
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from yolofast.ranks import reduces, sum_over_ranks, world
from yolofast.train.distributed.averaged_gradients import AveragedGradients
from yolofast.train.step import RunningLosses, TrainStep


def distribute(step: TrainStep) -> None:
    """Of several ranks: its batches become parts of a larger one, and all start from the first rank's state.

    Statistics are not broadcast before each step: training does not read them, and `even_out` makes them the
    first rank's before anybody does. To be called again when other parameters have come to require gradients.
    """
    for model in (step.model, step.ema.model):
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)
    step.exchange_by(AveragedGradients([p for p in step.model.parameters() if p.requires_grad]))


@torch.no_grad()
def even_out(step: TrainStep) -> None:
    """At the end of an epoch all ranks have the state that the first one saves.

    Gradients that wait for an update are averaged, so that any number of ranks can continue with them. BatchNorm
    statistics are the first rank's, as published: those of its own part of the batches, unless they are synchronised.
    """
    if not reduces():
        return
    for gradient in step.pending:
        dist.all_reduce(gradient)
        gradient /= world()
    for model in (step.model, step.ema.model):
        for statistics in model.buffers():
            dist.broadcast(statistics, src=0)


def mean_losses(losses: RunningLosses) -> dict[str, float]:
    """Means over all ranks since `reset`. Waits for the device, and for the others."""
    own: dict[str, Any] = losses.means()
    if not reduces():
        return own
    values = sum_over_ranks(torch.tensor(list(own.values()), dtype=torch.float64)) / world()
    return dict(zip(own, values.tolist(), strict=True))


def synchronise_batch_norm(model: nn.Module, device: torch.device) -> nn.Module:
    """The model with every BatchNorm over all ranks; parameters and statistics stay the same tensors."""
    if not reduces():
        return model
    if device.type == "cuda":
        synchronised: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
        return synchronised
    for module in model.modules():
        if type(module) is nn.BatchNorm2d:
            module.__class__ = BatchNormOverRanks
    return model


class BatchNormOverRanks(nn.BatchNorm2d):
    """Made by `synchronise_batch_norm` of layers that are there: it has no state but theirs."""

    def forward(self, maps: Tensor) -> Tensor:
        if not self.training:
            return super().forward(maps)
        assert self.running_mean is not None and self.running_var is not None and self.momentum is not None
        assert self.num_batches_tracked is not None
        # Where maps are bfloat16, weights and statistics are not: sums and counts would be too coarse.
        given, maps = maps, maps.to(self.weight.dtype)
        count = _summed(maps.new_tensor(maps.numel() / maps.shape[1]))
        mean_C = _summed(maps.sum((0, 2, 3))) / count
        centred = maps - mean_C[:, None, None]
        variance_C = _summed(centred.square().sum((0, 2, 3))) / count
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean_C, self.momentum)
            self.running_var.lerp_(variance_C * (count / (count - 1)), self.momentum)
        scale_C = self.weight * (variance_C + self.eps).rsqrt()
        return (centred * scale_C[:, None, None] + self.bias[:, None, None]).to(given.dtype)


def _summed(values: Tensor) -> Tensor:
    total: Tensor = _SumOverRanks.apply(values)  # type: ignore[no-untyped-call]
    return total


class _SumOverRanks(torch.autograd.Function):
    """What a rank adds to the sum changes the loss of every rank, so the gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return sum_over_ranks(values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return sum_over_ranks(grad)
