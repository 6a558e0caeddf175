"""An update of all weights, or of their average, by one kernel instead of one for each operation and some 100 tensors.

Tensors stay where they are: a table on the device has their addresses, made once. Gradients have another place in every
step. They are copied side by side first, which is a small part of what the operations one by one read and write.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from yolofast.precision import NEW_KERNELS

_BLOCK = 2048


class AddressTable:
    """Rows of tensors on one device: the first of each row belong together, and so on."""

    def __init__(self, *rows: Sequence[Tensor]) -> None:
        device, counts = rows[0][0].device, [tensor.numel() for tensor in rows[0]]
        blocks = [(place, start) for place, count in enumerate(counts) for start in range(0, count, _BLOCK)]
        self.tensors = [list(row) for row in rows]
        self.programs = len(blocks)

        def on_device(numbers: object) -> Tensor:
            return torch.tensor(numbers, dtype=torch.int64).to(device)

        self.tensor, self.start = on_device([place for place, _ in blocks]), on_device([start for _, start in blocks])
        self.counts, self.begins = on_device(counts), on_device([sum(counts[:place]) for place in range(len(counts))])
        self.addresses = [on_device([tensor.data_ptr() for tensor in row]) for row in rows]

    def __reduce__(self) -> tuple[type["AddressTable"], tuple[list[Tensor], ...]]:
        """A copy has the addresses of what it copied."""
        return AddressTable, tuple(self.tensors)


def table_of(*rows: Sequence[Tensor]) -> AddressTable | None:
    """None where a kernel cannot go through all of them from address to address."""
    return AddressTable(*rows) if NEW_KERNELS and rows[0] and all(map(_alike, *rows)) else None


def _alike(*tensors: Tensor) -> bool:
    first = tensors[0]
    extent = 1 + sum((size - 1) * stride for size, stride in zip(first.shape, first.stride(), strict=True))
    return (
        first.numel() == extent
        and all(one.dtype is torch.float32 and one.is_cuda == first.is_cuda for one in tensors)
        and all(in_order(one, first) for one in tensors[1:])
    )


def in_order(tensor: Tensor, like: Tensor) -> bool:
    """Whether its numbers lie in memory in the order of another's; sides of 1 may have any stride."""
    sides = zip(like.shape, like.stride(), tensor.stride(), strict=True)
    return all(size == 1 or own == its for size, own, its in sides)


def in_a_row(tensor: Tensor, like: Tensor) -> Tensor:
    """Its numbers in the order in which another's lie in memory."""
    if not in_order(tensor, like):
        tensor = torch.empty_like(like).copy_(tensor)
    return tensor.as_strided((tensor.numel(),), (1,))


def sgd_in_one(table: AddressTable, gradients: Sequence[Tensor], rate: Tensor, momentum: Tensor, decay: float) -> None:
    """`table` has weights and velocities."""
    from yolofast.optim import _update_kernel as kernels

    weights, _ = table.tensors
    counts = [one.numel() for one in weights]
    flat = torch.empty(sum(counts), device=rate.device)
    own = [in_a_row(gradient, weight) for gradient, weight in zip(gradients, weights, strict=True)]
    torch._foreach_copy_(list(torch.split(flat, counts)), own)
    kernels.sgd_kernel[(table.programs,)](
        table.tensor, table.start, table.counts, *table.addresses, table.begins, flat, rate, momentum, decay,
        BLOCK=_BLOCK,
    )  # fmt: skip


def average_in_one(table: AddressTable, share: Tensor) -> None:
    """`table` has what is trained and its average."""
    from yolofast.optim import _update_kernel as kernels

    kernels.average_kernel[(table.programs,)](
        table.tensor, table.start, table.counts, *table.addresses, share, BLOCK=_BLOCK
    )
