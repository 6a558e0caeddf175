"""Rebuilds tensors from inert values, checking every number before a byte is allocated.

Tensors that share a storage stay views of it, so memory is bounded by the file, not by what the file claims.
"""

import math

import torch
from torch import Tensor

from yolofast.checkpoint.containers import Container, storage_dtype
from yolofast.checkpoint.inert import Call, Persistent
from yolofast.checkpoint.refusals import REBUILD_PARAMETER, REBUILD_TENSOR, damaged

MAX_DIMENSIONS = 16
_STEPS = 25
"""That a tensor takes, also an empty one."""
MAX_SHARING = 8
"""How often, on average, a byte of the file may be used: tied weights share, but no model shares all it has."""


def is_tensor(value: object) -> bool:
    """Whether an inert value stands for a tensor or parameter."""
    return isinstance(value, Call) and value.function.path in (REBUILD_TENSOR, *REBUILD_PARAMETER)


class TensorBuilder:
    """Reads a storage on its first use, and once."""

    def __init__(self, source: Container) -> None:
        self._source = source
        self._bytes: dict[str, bytearray] = {}
        self._budget = MAX_SHARING * source.total_bytes

    def build(self, value: object) -> Tensor:
        """The tensor a `Call` stands for: always on the CPU, whatever device it was saved from."""
        if isinstance(value, Call) and value.function.path in REBUILD_PARAMETER and value.args:
            value = value.args[0]
        if not isinstance(value, Call) or value.function.path != REBUILD_TENSOR or len(value.args) < 4:
            raise damaged("a tensor is not described as torch describes tensors")
        self._source.budget.spend(_STEPS)
        storage, offset, size, stride = value.args[:4]
        flat = self._storage(storage)
        sizes, strides = _extents(size), _extents(stride)
        start = _extents((offset,))[0]
        _check_view(flat.numel(), start, sizes, strides)
        self._budget -= math.prod(sizes) * flat.element_size()
        if self._budget < 0:
            raise damaged("its tensors claim many times the data that is there")
        return torch.as_strided(flat, sizes, strides, start)

    def _storage(self, reference: object) -> Tensor:
        if not isinstance(reference, Persistent) or not isinstance(reference.id, tuple) or len(reference.id) < 5:
            raise damaged("a tensor has no storage")
        tag, kind, key, _, numel = reference.id[:5]
        if tag != "storage" or not isinstance(key, str) or type(numel) is not int or numel < 0:
            raise damaged("a storage is not described as torch describes storages")
        dtype, present = storage_dtype(kind), self._source.size_of(key)
        if present is None:
            raise damaged("a storage is missing")
        if numel * dtype.itemsize > present:
            raise damaged(f"a storage claims {numel} elements but holds {present} bytes")
        if numel == 0:
            return torch.empty(0, dtype=dtype)
        if key not in self._bytes:
            self._bytes[key] = self._source.read(key)
        return torch.frombuffer(self._bytes[key], dtype=dtype, count=numel)


def _extents(values: object) -> tuple[int, ...]:
    if not isinstance(values, tuple) or len(values) > MAX_DIMENSIONS:
        raise damaged("a tensor has an impossible shape")
    if not all(type(value) is int and 0 <= value < 1 << 48 for value in values):
        raise damaged("a tensor has an impossible size, stride or offset")
    return values


def _check_view(numel: int, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """The view lies within the storage and is no larger: a stride of 0 would turn four bytes into any number."""
    if len(sizes) != len(strides) or offset > numel or math.prod(size or 1 for size in sizes) >= 1 << 48:
        raise damaged("a tensor has an impossible shape")
    if 0 in sizes:
        return
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if last >= numel or math.prod(sizes) > numel:
        raise damaged("a tensor is larger than its storage")
