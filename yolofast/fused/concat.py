"""Maps joined in channels without being copied: who makes them writes them where the joint map has them.

`ConcatBuffer` is the joint map of one forward pass, its memory taken when the first part is written. A part that was
not written to its place by its maker is copied. The other way round: `split` gives a map in parts, whose gradients are
written side by side.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from yolofast.fused.fork import alias, handed_on, row_stride, taken
from yolofast.precision import NEW_KERNELS


class ConcatSlot(NamedTuple):
    """Where a part belongs."""

    buffer: "ConcatBuffer"
    part: int
    only: bool
    """Whether it lives there alone. Convolutions want maps of their own: they would copy a part of a wider one."""


class ConcatBuffer:
    def __init__(self, channels: Sequence[int]) -> None:
        self._channels = tuple(channels)
        self._whole: Tensor | None = None
        self._written: dict[int, int] = {}
        """Part → address of the map whose values its place has."""

    def slot(self, part: int, only: bool = True) -> ConcatSlot:
        return ConcatSlot(self, part, only)

    def place(self, index: int, like: Tensor, height: int, width: int) -> Tensor | None:
        """The memory of a part; None where parts do not fit together."""
        shape = len(like), sum(self._channels), height, width
        if self._whole is None:
            self._whole = new_map(like, *shape[1:])
        if (self._whole.shape, self._whole.dtype) != (shape, like.dtype):
            return None
        return alias(self._whole, sum(self._channels[:index]), self._channels[index])

    def is_written(self, index: int, by: Tensor) -> None:
        self._written[index] = by.data_ptr()

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        """Along channels."""
        if self._whole is None or not all(map(self._fits, parts, self._channels)):
            return torch.cat(tuple(parts), dim=1)
        joint: Tensor = _Concat.apply(self, self._channels, *parts)  # type: ignore[no-untyped-call]
        return joint

    def whole(self, parts: Sequence[Tensor]) -> Tensor:
        """The joint memory with these parts in it, which is theirs from now on."""
        memory, self._whole = self._whole, None
        assert memory is not None
        for index, part in enumerate(parts):
            if self._written.get(index) != part.data_ptr():
                alias(memory, sum(self._channels[:index]), self._channels[index]).copy_(part)
        self._written.clear()
        return memory

    def _fits(self, part: Tensor, channels: int) -> bool:
        assert self._whole is not None
        images, _, *size = self._whole.shape
        return part.dtype == self._whole.dtype and part.shape == (images, channels, *size)


def room_for(
    slot: ConcatSlot | None, like: Tensor, channels: int, height: int, width: int
) -> tuple[Tensor, Tensor | None]:
    """Memory for a map, and where it is to be written a second time."""
    place = None if slot is None or not NEW_KERNELS else slot.buffer.place(slot.part, like, height, width)
    if slot is None or place is None or place.shape[1] != channels:
        return new_map(like, channels, height, width), None
    own = place if slot.only else new_map(like, channels, height, width)
    slot.buffer.is_written(slot.part, own)
    return own, None if slot.only else place


def new_map(like: Tensor, channels: int, height: int, width: int) -> Tensor:
    return like.new_empty((len(like), height, width, channels)).permute(0, 3, 1, 2)


class _Concat(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, buffer: ConcatBuffer, channels: tuple[int, ...], *parts: Tensor) -> Tensor:
        ctx.channels, ctx.nodes, ctx.more = channels, [part.grad_fn for part in parts], []
        return buffer.whole(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        joint = [one for one in taken(ctx, given) if one is not None]
        pieces = zip(*(torch.split(one, list(ctx.channels), dim=1) for one in joint), strict=True)
        return None, None, *(handed_on(node, piece) for node, piece in zip(ctx.nodes, pieces, strict=True))


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, channels: tuple[int, ...], gradients: ConcatBuffer) -> tuple[Tensor, ...]:
        ctx.gradients = gradients
        starts = accumulate(channels[:-1], initial=0)
        return tuple(alias(x, start, count) for start, count in zip(starts, channels, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, None, None]:
        return ctx.gradients.concat(given), None, None


def split(x: Tensor, channels: Sequence[int]) -> list[tuple[Tensor, ConcatSlot]]:
    """The parts of a map, and where the gradient of each is to be written."""
    assert row_stride(x) is not None
    buffer = ConcatBuffer(channels)
    parts = _Split.apply(x, tuple(channels), buffer)  # type: ignore[no-untyped-call]
    return [(part, buffer.slot(index)) for index, part in enumerate(parts)]
