"""Which parameters are decayed, and which warm up from another learning rate."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

BIASES = 2
"""The index of the biases' group: they warm up from a learning rate of their own."""


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """YOLOv7's three groups, in the published order: scales of normalisation and implicit layers, weights, biases.

    Only weights are decayed. Frozen parameters are left out: nothing ever moves them.
    """
    scales, weights, biases = [], [], []
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            if name == "bias":
                biases.append(parameter)
            elif isinstance(module, _NormBase) or name == "implicit":
                scales.append(parameter)
            else:
                weights.append(parameter)
    return [
        {"params": scales, "weight_decay": 0.0},
        {"params": weights, "weight_decay": weight_decay},
        {"params": biases, "weight_decay": 0.0},
    ]


def split_groups(
    groups: Sequence[dict[str, Any]], part_of: Callable[[nn.Parameter], int], parts: int
) -> list[dict[str, Any]]:
    """Every group once for each part, part by part: first all groups with the parameters of part 0."""
    return [
        {**group, "params": [parameter for parameter in group["params"] if part_of(parameter) == part]}
        for part in range(parts)
        for group in groups
    ]
