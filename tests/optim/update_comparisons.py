"""`python -m tests.optim.update_comparisons`: SGD and the average by one kernel against the operations one by one."""

import copy
from contextlib import nullcontext

import torch
from torch import nn

from yolofast.optim.optimizer import ModelEma, parameter_groups
from yolofast.optim.sgd import Sgd
from yolofast.precision import without_kernels


def updated(device, *, own):
    """Weights, statistics, averages and velocities after some updates; the optimizer changes groups and is copied."""
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 70, 3), nn.BatchNorm2d(70), nn.Conv2d(70, 66, 1, bias=False), nn.Conv2d(66, 5, 1)
    model = nn.Sequential(*layers).to(device, memory_format=torch.channels_last)
    rng = torch.Generator().manual_seed(1)
    with nullcontext() if own else without_kernels():
        sgd, average = Sgd(parameter_groups(model, 0.01)), ModelEma(model)
        for number in range(8):
            if number == 3:
                model[3].requires_grad_(False)
                sgd = sgd.regrouped(parameter_groups(model, 0.01))
            if number == 6:
                model, sgd, average = copy.deepcopy((model, sgd, average))
            sgd.set((0.1, 0.02 * number, 0.3), 0.8 + 0.01 * number)
            model[1].running_mean.add_(1)
            for parameter in model.parameters():
                gradient = torch.randn(parameter.shape, generator=rng).to(device)
                parameter.grad = gradient if number % 2 or parameter.dim() < 4 else channels_last(gradient)
            sgd.step()
            average.update()
        assert any(sgd._tables.values()) == own and (average._table is not None) == own
    return [*model.state_dict().values(), *average.model.state_dict().values(), *sgd.tensors()]


def channels_last(values):
    return values.contiguous(memory_format=torch.channels_last)


def compare_all(device="cpu"):
    for ours, plain in zip(updated(device, own=True), updated(device, own=False), strict=True):
        torch.testing.assert_close(ours, plain, rtol=2e-6, atol=2e-6)


if __name__ == "__main__":
    compare_all()
    print("same")
