"""The processes (ranks) that train one model together, as far as a loss has to know of them.

Each rank gets its part of a batch, and gradients are averaged over the ranks. A term might be divided by a count of the
rank's own, such as its positives: then the weight of a box would depend on the part it is in. So counts are averaged
over the ranks too: the average of the ranks' losses is then the loss of the whole batch. The published code divides by
its own counts; `share_counts(False)` does that. Outside of training (no gradients) each rank counts alone, because
parts of a validation set may differ in size. On one rank all of this is the identity.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

_shared, _also_alone = True, False


def share_counts(shared: bool) -> None:
    """Whether losses of several ranks are divided by the counts of the whole batch, the default."""
    global _shared
    _shared = shared


@contextmanager
def each_for_itself() -> Iterator[None]:
    """What happens here a rank computes without waiting for the others."""
    global _shared
    before, _shared = _shared, False
    try:
        yield
    finally:
        _shared = before


def world() -> int:
    """How many ranks there are."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def reduces() -> bool:
    """Whether what ranks compute is added up: where there are several of them, or where it is asked for."""
    return world() > 1 or _also_alone


@contextmanager
def reducing_alone() -> Iterator[None]:
    """What happens here is added up by the process group although it may have one rank: to test it, and to measure what
    it costs."""
    global _also_alone
    before, _also_alone = _also_alone, True
    try:
        yield
    finally:
        _also_alone = before


def ranks_here() -> int:
    """How many of them a launcher has started on this machine, whose memory and cores they share."""
    return max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))


def rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def is_first() -> bool:
    """Whether this is the rank that speaks and writes for all."""
    return rank() == 0


def counts_are_shared() -> bool:
    return _shared and torch.is_grad_enabled() and reduces()


def per_rank(count: Tensor) -> Tensor:
    """What to divide a rank's sum by: its count, or the mean of all ranks' counts; never less than 1 in all."""
    if not counts_are_shared():
        return count.clamp(min=1)
    return sum_over_ranks(count).clamp(min=1) / world()


def mean_of_cells(loss: Tensor) -> Tensor:
    """The mean of a loss; ranks with more images than others count more."""
    if not counts_are_shared():
        return loss.mean()
    return loss.sum() / per_rank(torch.full((), loss.numel(), device=loss.device))


def whole_batch(images: int, device: torch.device) -> int | Tensor:
    """Images of the batch on all ranks. Times it, a loss averaged over the ranks is the sum over the batch."""
    if not counts_are_shared():
        return images * (world() if torch.is_grad_enabled() else 1)
    return sum_over_ranks(torch.full((), images, device=device))


def follow_all(values: Tensor) -> Tensor:
    """The mean over the ranks of what a loss remembers of its batches."""
    return sum_over_ranks(values) / world() if counts_are_shared() else values


def wait_for_all() -> None:
    """The host waits until every rank has come here."""
    if world() > 1:
        dist.all_reduce(torch.zeros(1))


def agree_on_largest(value: Tensor) -> None:
    """Every rank's `value` becomes the largest of them all."""
    if reduces():
        dist.all_reduce(value, dist.ReduceOp.MAX)


def smallest_of_all(number: int) -> int:
    """Of the numbers that the ranks have."""
    return -largest_of_all(-number)[0]


def largest_of_all(*numbers: int) -> list[int]:
    """Each of the numbers, as large as on any rank. Hosts meet for it, devices do not."""
    values = torch.tensor(numbers)
    agree_on_largest(values)
    return values.tolist()


def sum_over_ranks(values: Tensor) -> Tensor:
    """Without gradient; a new tensor. The device waits for the others, the host does not."""
    total = values.detach().clone()
    if reduces():
        dist.all_reduce(total)
    return total
