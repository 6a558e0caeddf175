"""What a training step asks of an optimizer, and the one way to get one."""

from collections.abc import Sequence
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
