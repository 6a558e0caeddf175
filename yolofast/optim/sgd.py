"""SGD with Nesterov momentum whose learning rates and momentum live on the device.

`torch.optim.SGD` takes momentum as a Python number, which a captured CUDA graph would freeze; YOLOv7 warms it up. The
arithmetic is the same, and a test compares the two.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from yolofast.optim.optimizer import by_parameter, carried


class Sgd:
    """Groups are `{"params": [...], "weight_decay": …}`; `set` before each `step`."""

    def __init__(self, groups: Sequence[dict[str, Any]]) -> None:
        self._params: list[list[Tensor]] = [list(group["params"]) for group in groups]
        self._decay = [float(group["weight_decay"]) for group in groups]
        self._velocity = [[torch.zeros_like(p) for p in params] for params in self._params]
        device = next(p.device for params in self._params for p in params)
        self.lr = [torch.zeros((), device=device) for _ in groups]
        self.momentum = torch.zeros((), device=device)

    @property
    def weight_decay(self) -> float:
        return max(self._decay)

    def regrouped(self, groups: Sequence[dict[str, Any]]) -> "Sgd":
        """As `Optimizer.regrouped`."""
        changed = Sgd(groups)
        known = by_parameter(self._params, self._velocity)
        changed._velocity = carried(known, changed._params, changed._velocity)
        return changed

    def set(self, lr: Sequence[float], momentum: float) -> None:
        """No wait for the device: numbers travel as arguments of the fill."""
        for tensor, value in zip(self.lr, lr, strict=True):
            tensor.fill_(value)
        self.momentum.fill_(momentum)

    @torch.no_grad()
    def step(self) -> None:
        for params, velocity, decay, lr in zip(self._params, self._velocity, self._decay, self.lr, strict=True):
            if not params:
                continue
            grads = [p.grad for p in params if p.grad is not None]
            assert len(grads) == len(params), "a parameter has no gradient: freeze what does not learn"
            if decay:
                torch._foreach_add_(grads, params, alpha=decay)
            torch._foreach_mul_(velocity, self.momentum)
            torch._foreach_add_(velocity, grads)
            # Nesterov: the gradient plus what momentum will do with the velocity.
            ahead = torch._foreach_mul(velocity, self.momentum)
            torch._foreach_add_(ahead, grads)
            torch._foreach_mul_(ahead, lr)
            torch._foreach_sub_(params, ahead)

    def tensors(self) -> list[Tensor]:
        """What a step changes besides the parameters."""
        return [velocity for group in self._velocity for velocity in group]

    def state_dict(self) -> dict[str, Any]:
        return {"velocity": self._velocity}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for own, given in zip(self._velocity, state["velocity"], strict=True):
            for tensor, value in zip(own, given, strict=True):
                tensor.copy_(value)
