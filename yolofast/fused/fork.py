"""Maps that several layers read. Autograd adds their gradients, a pass over memory for each but the first; here whoever
made the map gets all of them and adds them while it reads them.

A node that can do so has a list `more`: gradients beside the one that autograd hands it. So autograd's own word about
such a map, a hook or `autograd.grad` in the middle of a network, would tell of one gradient only.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from yolofast.precision import NEW_KERNELS

MOST_GRADIENTS = 4
"""That a kernel reads."""
_UNIT = 8


class _Fork(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, readers: int) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.node, ctx.more = x.grad_fn, []
        return tuple(alias(x, 0, x.shape[1]) for _ in range(readers))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, None]:
        return handed_on(ctx.node, [one for one in taken(ctx, *given) if one is not None]), None


def fork(x: Tensor, readers: int) -> list[Tensor]:
    """The map once for each layer that reads it."""
    if readers < 2 or not NEW_KERNELS or torch.compiler.is_compiling() or not _takes_more(x.grad_fn):
        return [x] * readers
    return list(_Fork.apply(x, readers))  # type: ignore[no-untyped-call]


def _takes_more(node: Any) -> bool:
    return isinstance(getattr(node, "more", None), list)


def taken(ctx: Any, *given: Tensor | None) -> list[Tensor | None]:
    """With what was handed on beside them."""
    gradients = [*given, *ctx.more]
    ctx.more = []
    return gradients


def handed_on(node: Any, gradients: Sequence[Tensor]) -> Tensor | None:
    """What autograd is to give to a node whose map has these gradients."""
    if not gradients:
        return None
    if _takes_more(node):
        node.more += gradients[1:]
        return gradients[0]
    total = gradients[0]
    for one in gradients[1:]:
        total = total + one
    return total


def few_gradients(ctx: Any, given: Tensor) -> list[Tensor]:
    """As many as a kernel reads; of more the last are added before."""
    found = [one for one in taken(ctx, given) if one is not None]
    while len(found) > MOST_GRADIENTS:
        found.append(found.pop() + found.pop())
    return found


def in_steps(*maps: Tensor) -> tuple[list[Any], int]:
    """For a kernel: maps, how far apart their rows lie, and the numbers such a step has.

    Steps are no constants of a kernel, which would be compiled for each anew. That they are a whole number of 16 bytes
    it must know all the same, to read as many at once.
    """
    read = [rows_of(one) for one in maps]
    unit = _UNIT if all(stride % _UNIT == 0 for _, stride in read) else 1
    return [*(one for one, _ in read), *(stride // unit for _, stride in read)], unit


def padded(gradients: Sequence[Tensor]) -> list[Tensor]:
    """As many as a kernel can read; it is told how many count."""
    return [*gradients, *[gradients[0]] * (MOST_GRADIENTS - len(gradients))]


def row_stride(x: Tensor) -> int | None:
    """How far apart the rows of a map lie, one for each place of each image, if they lie evenly: as in a map of its own
    or as some of the channels of a wider one."""
    _, channels, height, width = x.shape
    if x.is_contiguous(memory_format=torch.channels_last):
        return channels
    stride = x.stride(3)
    return stride if x.stride() == (height * width * stride, 1, width * stride, stride) else None


def rows_of(x: Tensor) -> tuple[Tensor, int]:
    """Read where they are, if they lie evenly."""
    stride = row_stride(x)
    return (x.contiguous(memory_format=torch.channels_last), x.shape[1]) if stride is None else (x, stride)


def alias(x: Tensor, start: int, channels: int) -> Tensor:
    """Some channels of a map of its own or of a part of one, in the same memory; autograd sees no view in it."""
    shape = len(x), channels, *x.shape[2:]
    stride = row_stride(x)
    assert stride is not None
    _, _, height, width = shape
    strides = height * width * stride, 1, width * stride, stride
    return x.new_empty(0).set_(x.untyped_storage(), x.storage_offset() + start, shape, strides)
