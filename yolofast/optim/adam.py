"""Adam and AdamW whose learning rates and β1 live on the device.

`torch.optim.Adam` takes β1 as a Python number, which a captured CUDA graph would freeze; YOLOv7's momentum, which is β1
here, follows a schedule. The arithmetic is the same, and a test compares the two.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from yolofast.optim.optimizer import by_parameter, carried

_BETA2, _EPSILON = 0.999, 1e-8


class Adam:
    """Groups are `{"params": [...], "weight_decay": …}`; `set` before each `step`."""

    def __init__(self, groups: Sequence[dict[str, Any]], *, decoupled_decay: bool) -> None:
        """`decoupled_decay` shrinks the weights themselves (AdamW); otherwise decay is part of the gradient."""
        self._params: list[list[Tensor]] = [list(group["params"]) for group in groups]
        self._decay = [float(group["weight_decay"]) for group in groups]
        self._decoupled = decoupled_decay
        self._mean = [[torch.zeros_like(p) for p in params] for params in self._params]
        self._square = [[torch.zeros_like(p) for p in params] for params in self._params]
        device = next(p.device for params in self._params for p in params)
        self.lr = [torch.zeros((), device=device) for _ in groups]
        self.momentum = torch.zeros((), device=device)
        # By group: what has come later has seen fewer.
        self._steps = [torch.zeros((), dtype=torch.float64, device=device) for _ in groups]

    @property
    def weight_decay(self) -> float:
        return max(self._decay)

    def regrouped(self, groups: Sequence[dict[str, Any]]) -> "Adam":
        """As `Optimizer.regrouped`. A group must not mix parameters that stay with new ones: it has one count."""
        changed = Adam(groups, decoupled_decay=self._decoupled)
        mean, square = by_parameter(self._params, self._mean), by_parameter(self._params, self._square)
        steps = {id(p): float(n) for params, n in zip(self._params, self._steps, strict=True) for p in params}
        for count, params in zip(changed._steps, changed._params, strict=True):
            seen = {steps.get(id(p), 0.0) for p in params} or {0.0}
            assert len(seen) == 1, "a group mixes parameters that stay with new ones"
            count.fill_(seen.pop())
        changed._mean = carried(mean, changed._params, changed._mean)
        changed._square = carried(square, changed._params, changed._square)
        return changed

    def set(self, lr: Sequence[float], momentum: float) -> None:
        """No wait for the device: numbers travel as arguments of the fill."""
        for tensor, value in zip(self.lr, lr, strict=True):
            tensor.fill_(value)
        self.momentum.fill_(momentum)

    @torch.no_grad()
    def step(self) -> None:
        for group, params in enumerate(self._params):
            if params:
                steps = self._steps[group].add_(1)
                # Both averages start at 0; these say how much of them is there yet.
                mean_share = (1 - self.momentum.double() ** steps).float()
                square_share = (1 - torch.pow(_BETA2, steps)).sqrt().float()
                self._decay_weights(group)
                self._average(group)
                self._move(group, self.lr[group] / mean_share, square_share)

    def _gradients(self, group: int) -> list[Tensor]:
        grads = [p.grad for p in self._params[group] if p.grad is not None]
        assert len(grads) == len(self._params[group]), "a parameter has no gradient: freeze what does not learn"
        return grads

    def _decay_weights(self, group: int) -> None:
        decay, params = self._decay[group], self._params[group]
        if decay and self._decoupled:
            torch._foreach_mul_(params, 1 - self.lr[group] * decay)
        elif decay:
            torch._foreach_add_(self._gradients(group), params, alpha=decay)

    def _average(self, group: int) -> None:
        grads, mean, square = self._gradients(group), self._mean[group], self._square[group]
        torch._foreach_mul_(mean, self.momentum)
        torch._foreach_add_(mean, torch._foreach_mul(grads, 1 - self.momentum))
        torch._foreach_mul_(square, _BETA2)
        torch._foreach_addcmul_(square, grads, grads, value=1 - _BETA2)

    def _move(self, group: int, rate: Tensor, square_share: Tensor) -> None:
        root = torch._foreach_sqrt(self._square[group])
        torch._foreach_div_(root, square_share)
        torch._foreach_add_(root, _EPSILON)
        move = torch._foreach_div(self._mean[group], root)
        torch._foreach_mul_(move, rate)
        torch._foreach_sub_(self._params[group], move)

    def tensors(self) -> list[Tensor]:
        """What a step changes besides the parameters."""
        return [*(tensor for kind in (self._mean, self._square) for group in kind for tensor in group), *self._steps]

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self._mean, "square": self._square, "steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, kind in (("mean", self._mean), ("square", self._square)):
            for own, given in zip(kind, state[name], strict=True):
                for tensor, value in zip(own, given, strict=True):
                    tensor.copy_(value)
        steps = state["steps"]  # before there were plans, one count was that of all groups
        counts = [steps] * len(self._steps) if isinstance(steps, Tensor) else steps
        for count, given in zip(self._steps, counts, strict=True):
            count.copy_(given)


def adam(groups: Sequence[dict[str, Any]]) -> Adam:
    return Adam(groups, decoupled_decay=False)


def adamw(groups: Sequence[dict[str, Any]]) -> Adam:
    return Adam(groups, decoupled_decay=True)
