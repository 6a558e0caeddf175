"""What a training step asks of an optimizer, and the one way to get one.

What an optimizer knows of its parameters, taken along when they are grouped anew.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from yolofast.extensions import OPTIMIZERS, found


class Optimizer(Protocol):
    """Learning rates and momentum live on the device, so that a captured graph reads what the schedule says."""

    @property
    def weight_decay(self) -> float:
        """Of those that are decayed."""

    def regrouped(self, groups: Sequence[dict[str, Any]]) -> "Optimizer":
        """One of the same kind for other groups. Parameters that stay keep what is known of them, in the same memory;
        new ones start from nothing."""

    def set(self, lr: Sequence[float], momentum: float) -> None:
        """Before each `step`: a learning rate for each group; momentum is β1 for Adam."""

    def step(self) -> None: ...

    def tensors(self) -> list[Tensor]:
        """What a step changes besides the parameters."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def build_optimizer(name: str, groups: Sequence[dict[str, Any]]) -> Optimizer:
    """`groups` are `{"params": [...], "weight_decay": …}`."""
    optimizer: Optimizer = found(OPTIMIZERS[name])(groups)
    return optimizer


def by_parameter(params: Sequence[Sequence[Tensor]], known: Sequence[Sequence[Tensor]]) -> dict[int, Tensor]:
    """`known` by the identity of the parameter it belongs to."""
    pairs = zip(params, known, strict=True)
    return {id(p): k for group, of_group in pairs for p, k in zip(group, of_group, strict=True)}


def carried(
    known: Mapping[int, Tensor], params: Sequence[Sequence[Tensor]], fresh: Sequence[Sequence[Tensor]]
) -> list[list[Tensor]]:
    """What is known of the parameters, and `fresh` for the new ones."""
    return [
        [known.get(id(p), new) for p, new in zip(group, of_group, strict=True)]
        for group, of_group in zip(params, fresh, strict=True)
    ]
