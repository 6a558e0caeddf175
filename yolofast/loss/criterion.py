"""What every loss is to a step: a plain callable from raw maps and targets to terms, with or without a state."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from yolofast.structures import LossTerms, Targets


class Criterion(Protocol):
    """A loss: a plain callable that holds no parameters."""

    def __call__(self, raw: Sequence[Tensor], targets: Targets) -> LossTerms: ...


def state_of(criterion: Criterion) -> list[Tensor]:
    """What a loss changes from step to step (`tensors()`, where it has that): part of a run's state."""
    tensors = getattr(criterion, "tensors", None)
    return [] if tensors is None else tensors()
