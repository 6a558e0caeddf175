"""Convolutions of one map as one, with the weights of all: the map is read once, and so is its gradient written.

Weights that lie side by side in memory (`low_precision` lays them so) are taken as they are, others copied together.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from yolofast.fused.concat import ConcatSlot, split
from yolofast.fused.fork import row_stride


class _SideBySide(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> Tensor:
        ctx.counts = [len(weight) for weight in weights]
        first = weights[0]
        if not _are_neighbours(weights):
            return torch.cat(weights)
        shape, storage = (sum(ctx.counts), *first.shape[1:]), first.untyped_storage()
        return first.new_empty(0).set_(storage, first.storage_offset(), shape, first.stride())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.split(given, ctx.counts))


def _are_neighbours(weights: Sequence[Tensor]) -> bool:
    first, address = weights[0], weights[0].data_ptr()
    storage = first.untyped_storage().data_ptr()
    for weight in weights:
        whole = weight.stride(0) * len(weight) == weight.numel() and weight.stride() == first.stride()
        if not whole or weight.data_ptr() != address or weight.untyped_storage().data_ptr() != storage:
            return False
        address += weight.numel() * weight.element_size()
    return True


def run_as_one(convs: Sequence[nn.Module], x: Tensor) -> list[tuple[Tensor, ConcatSlot]] | None:
    """Their maps, parts of a joint one, each with the place of its gradient; None where they differ too much."""
    if not all(_alike(conv, convs[0]) for conv in convs):
        return None
    first, weights = convs[0], [conv.weight for conv in convs]
    assert isinstance(first, nn.Conv2d)
    weight: Tensor = _SideBySide.apply(*weights)  # type: ignore[no-untyped-call]
    y = F.conv2d(x, weight, None, first.stride, first.padding, first.dilation)
    if row_stride(y) is None:
        y = y.contiguous(memory_format=torch.channels_last)
    return split(y, [len(one) for one in weights])  # type: ignore[arg-type]


def _alike(conv: nn.Module, other: nn.Module) -> bool:
    """In everything but their weights and the number of their maps."""
    return (
        type(conv) is type(other) is nn.Conv2d
        and conv.bias is None
        and conv.groups == other.groups == 1
        and (conv.kernel_size, conv.stride, conv.padding) == (other.kernel_size, other.stride, other.padding)
        and (conv.dilation, conv.padding_mode) == (other.dilation, "zeros")
        and (conv.weight.shape[1:], conv.weight.dtype) == (other.weight.shape[1:], other.weight.dtype)
    )
