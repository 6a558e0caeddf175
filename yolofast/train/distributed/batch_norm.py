"""BatchNorm over all ranks: torch's SyncBatchNorm on GPUs, and a plain version of it for the CPU, where torch has none.

The plain version sums with two differentiable reductions per layer, which is slow and meant for trying things out and
for tests; its result is that of BatchNorm on the whole batch. Squares are summed of what is left without the
mean, so it rounds less than torch's layer for channels_last maps on the CPU, which is off by some 10⁻⁶ in float32.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from yolofast.ranks import world


def synchronise_batch_norm(model: nn.Module, device: torch.device) -> nn.Module:
    """The model with every BatchNorm over all ranks; parameters and statistics stay the same tensors."""
    if world() == 1:
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
        # Where maps are bfloat16, weights and statistics are not: sums and counts would be too coarse.
        return self._normalised(maps.to(self.weight.dtype)).to(maps.dtype)

    def _normalised(self, maps: Tensor) -> Tensor:
        assert self.running_mean is not None and self.running_var is not None and self.momentum is not None
        assert self.num_batches_tracked is not None
        count = _summed(maps.new_tensor(maps.numel() / maps.shape[1]))
        mean_C = _summed(maps.sum((0, 2, 3))) / count
        centred = maps - mean_C[:, None, None]
        variance_C = _summed(centred.square().sum((0, 2, 3))) / count
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean_C, self.momentum)
            self.running_var.lerp_(variance_C * (count / (count - 1)), self.momentum)
        scale_C = self.weight * (variance_C + self.eps).rsqrt()
        return centred * scale_C[:, None, None] + self.bias[:, None, None]


def _summed(values: Tensor) -> Tensor:
    total: Tensor = _SumOverRanks.apply(values)  # type: ignore[no-untyped-call]
    return total


class _SumOverRanks(torch.autograd.Function):
    """What a rank adds to the sum changes the loss of every rank, so the gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone()
        dist.all_reduce(total)
        return total
