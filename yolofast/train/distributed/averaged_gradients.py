"""Gradients averaged over the ranks, in buckets, while the backward pass continues.

torch's DistributedDataParallel does that too, but it replaces the model's forward and keeps count on the host of what
each pass has used, which a captured graph cannot. Here a hook on each parameter counts the gradients that have come.
A bucket whose gradients are all there is copied into memory of its own, divided by the number of ranks, and added up:
on NCCL's stream, beside which the backward pass continues, or by gloo's threads. Before weights move all sums are
waited for: on the GPU by the stream, so that the host does not. When a step is captured the hooks run once, and what
they have queued is part of the graph.

Buckets are added up in one order, the same on all ranks whichever gradient comes first. Afterwards gradients are views
of the buckets' memory, which stays where it is.
"""

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from yolofast.optim.one_kernel import in_a_row
from yolofast.ranks import world

LARGEST, SMALLEST = 25 * 2**20, 2**20
"""Bytes of a bucket: links are at their full rate from about the one on, and latency is most of it below the other."""
PARTS = 4
"""Buckets there are at least, if they are not too small: only the last one has no backward pass to hide behind."""


class AveragedGradients:
    """Of those parameters. `begin` before a backward pass whose gradients move weights, `finish` behind it; of other
    passes nothing is added up."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._buckets = [_Bucket(some) for some in buckets_of(parameters)]
        self._places = {id(p): place for place, bucket in enumerate(self._buckets) for p in bucket.parameters}
        arrived = partial(_arrived, weakref.ref(self))  # torch hides hooks from those who collect circles
        self._hooks: list[Any] = [
            parameter.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]
            for parameter in parameters
        ]
        self._listens, self._next = False, 0
        self._sums: list[Any] = []

    def remove(self) -> None:
        """Parameters are as they were without it."""
        for hook in self._hooks:
            hook.remove()

    def bucket_of(self, parameter: Tensor) -> int:
        """Gradients of one bucket may as well come together; -1 where none comes."""
        return self._places.get(id(parameter), -1)

    def begin(self) -> None:
        for bucket in self._buckets:
            bucket.missing = len(bucket.parameters)
        self._listens, self._next, self._sums = True, 0, []

    def finish(self) -> None:
        """A gradient that this rank has not counts as 0 of it."""
        self._listens = False
        while self._next < len(self._buckets):
            self._add_up_next()
        for running in self._sums:
            running.wait()
        self._sums = []
        for bucket in self._buckets:
            for parameter, mean in zip(bucket.parameters, bucket.means, strict=True):
                parameter.grad = mean

    def arrived(self, parameter: Tensor) -> None:
        """Its gradient is there."""
        if not self._listens:
            return
        self._buckets[self._places[id(parameter)]].missing -= 1
        while self._next < len(self._buckets) and self._buckets[self._next].missing == 0:
            self._add_up_next()

    @torch.no_grad()
    def _add_up_next(self) -> None:
        bucket = self._buckets[self._next]
        self._next += 1
        bucket.fill()
        bucket.memory /= world()
        self._sums.append(dist.all_reduce(bucket.memory, async_op=True))


def _arrived(averaged: "weakref.ref[AveragedGradients]", parameter: Tensor) -> None:
    own = averaged()
    if own is not None:
        own.arrived(parameter)


class _Bucket:
    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters, self.missing = parameters, len(parameters)
        self.memory = torch.zeros(
            sum(p.numel() for p in parameters), dtype=parameters[0].dtype, device=parameters[0].device
        )
        self._rows = torch.split(self.memory, [p.numel() for p in parameters])
        self.means = [row.as_strided(p.shape, p.stride()) for row, p in zip(self._rows, parameters, strict=True)]

    def fill(self) -> None:
        """With this rank's own gradients, by one kernel for all that are there."""
        own = zip(self._rows, self.parameters, strict=True)
        there = [(row, in_a_row(p.grad, p)) for row, p in own if p.grad is not None]
        if len(there) < len(self.parameters):
            self.memory.zero_()
        if there:
            torch._foreach_copy_([row for row, _ in there], [gradient for _, gradient in there])


def buckets_of(parameters: Sequence[Tensor]) -> list[list[Tensor]]:
    """In the order in which a backward pass gives gradients: about the reverse of that in which layers are used."""
    room = bucket_bytes(sum(p.nbytes for p in parameters))
    buckets: list[list[Tensor]] = []
    taken = 0
    for parameter in reversed(parameters):
        fits = buckets and taken + parameter.nbytes <= room and parameter.dtype == buckets[-1][0].dtype
        if not fits:
            buckets.append([])
            taken = 0
        buckets[-1].append(parameter)
        taken += parameter.nbytes
    return buckets


def bucket_bytes(total: int) -> int:
    """At most in a bucket, of so many bytes in all."""
    return min(max(total // PARTS, SMALLEST), LARGEST)
