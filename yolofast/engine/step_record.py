"""What a step costs and holds, written on the device into a row of a fixed buffer.

The host names the row beforehand, as it names the learning rate: a captured graph replays the writing, nobody waits,
and a step that is undone or only tried cannot shift the rows. Only values are read, so training stays the same.
"""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from yolofast.structures import LossTerms, Targets

TERMS = ("box", "obj", "cls", "l1")
"""Of losses, in every record of batches: 0 where a loss has no such term."""
MEASURED = ("total", *TERMS, "boxes", "box_size", "gradient_norm")


class StepRecord:
    """Rows of numbers on the device, one per batch of an epoch; what was not measured is not a number."""

    def __init__(self, device: torch.device, batches: int) -> None:
        self._rows = torch.full((batches, len(MEASURED)), torch.nan, device=device)
        self._place = torch.zeros(1, dtype=torch.int64, device=device)

    def next_is(self, batch: int) -> None:
        """Where the step that comes writes: the number travels as the argument of the fill."""
        self._place.fill_(batch)

    @torch.no_grad()
    def losses(self, terms: LossTerms, targets: Targets) -> None:
        """The total is the sum of the terms: some losses multiply it by the batch, others do not."""
        absent = torch.zeros_like(terms.total)
        parts = (terms.parts.get(name, absent) for name in TERMS)
        count = targets.valid.sum()
        side = targets.boxes[..., 2:].prod(-1).clamp(min=0).sqrt()
        size = torch.where(targets.valid, side, 0.0).sum() / count
        values = (reduce(torch.add, terms.parts.values()), *parts, count, size)
        row = torch.stack([*(value.detach().float() for value in values), torch.full_like(size, torch.nan)])
        self._rows.index_copy_(0, self._place, row[None])

    @torch.no_grad()
    def gradients(self, gradients: Sequence[Tensor]) -> None:
        """Before the optimizer adds decay to them; called where weights move, so after `losses`."""
        norm = torch.stack(torch._foreach_norm(list(gradients))).norm().float()
        self._rows[:, MEASURED.index("gradient_norm")].index_copy_(0, self._place, norm[None])

    def read(self, batches: int) -> list[list[float]]:
        """The first rows. Waits for the device."""
        rows: list[list[float]] = self._rows[:batches].tolist()
        return rows

    def forget(self) -> None:
        self._rows.fill_(torch.nan)
