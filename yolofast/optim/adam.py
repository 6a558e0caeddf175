"""Adam and AdamW: the arithmetic of torch's, and a test compares them. YOLOv7's momentum is β1 here.

Torch's own with `capturable=True` take rate and β1 as tensors, too (tried with torch 2.13). But they refuse the CPU,
where another set of options would have to serve, and round differently: 3e-7 after a hundred steps, so that a resumed
run would not continue as it began. One way for all devices is the simpler one.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from yolofast.optim.optimizer import Optimizer

try:
    from yolofast.optim import _adam_kernel as kernels
except ImportError:  # Triton is not there on every platform
    kernels = None  # type: ignore[assignment]

_BLOCK = 1024
_BETA2, _EPSILON = 0.999, 1e-8


class Adam(Optimizer):
    kinds = ("mean", "square")
    decoupled_decay: ClassVar[bool] = False
    """Decay shrinks the weights themselves; otherwise it is part of the gradient."""

    def __init__(self, groups: Sequence[dict[str, Any]]) -> None:
        super().__init__(groups)
        # One count per group: parameters that joined later have taken fewer steps.
        self._steps = [torch.zeros((), dtype=torch.float64, device=self.momentum.device) for _ in groups]

    def regrouped(self, groups: Sequence[dict[str, Any]]) -> Self:
        """A group must not mix parameters that stay with new ones: it has one count."""
        changed = super().regrouped(groups)
        steps = {id(p): float(n) for params, n in zip(self._params, self._steps, strict=True) for p in params}
        for count, params in zip(changed._steps, changed._params, strict=True):
            known = {steps.get(id(p), 0.0) for p in params} or {0.0}
            assert len(known) == 1, "a group mixes parameters that stay with new ones"
            count.fill_(known.pop())
        return changed

    @torch.no_grad()
    def step(self) -> None:
        for group in range(len(self._params)):
            params, grads, mean, square = self._by_adam(group)
            if not params:
                continue
            steps, lr, decay = self._steps[group].add_(1), self.lr[group], self._decay[group]
            # Both averages start at 0; these say how much of them is there yet.
            mean_share = (1 - self.momentum.double() ** steps).float()
            square_share = (1 - torch.pow(_BETA2, steps)).sqrt().float()
            if not decay and _in_one_kernel(params):
                _moved(params[0], grads[0], mean[0], square[0], self.momentum, lr / mean_share, square_share)
                continue
            if decay and self.decoupled_decay:
                torch._foreach_mul_(params, 1 - lr * decay)
            elif decay:
                torch._foreach_add_(grads, params, alpha=decay)
            torch._foreach_mul_(mean, self.momentum)
            torch._foreach_add_(mean, torch._foreach_mul(grads, 1 - self.momentum))
            torch._foreach_mul_(square, _BETA2)
            torch._foreach_addcmul_(square, grads, grads, value=1 - _BETA2)
            root = torch._foreach_sqrt(square)
            torch._foreach_div_(root, square_share)
            torch._foreach_add_(root, _EPSILON)
            move = torch._foreach_div(mean, root)
            torch._foreach_mul_(move, lr / mean_share)
            torch._foreach_sub_(params, move)

    def _by_adam(self, group: int) -> list[list[Tensor]]:
        """Parameters, gradients and both averages."""
        return [self._params[group], self._gradients(group), self._state["mean"][group], self._state["square"][group]]

    def tensors(self) -> list[Tensor]:
        return [*super().tensors(), *self._steps]

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        steps = state["steps"]  # before there were plans, one count was that of all groups
        counts = [steps] * len(self._steps) if isinstance(steps, Tensor) else steps
        for count, given in zip(self._steps, counts, strict=True):
            count.copy_(given)


class AdamW(Adam):
    decoupled_decay = True


def _in_one_kernel(params: Sequence[Tensor]) -> bool:
    """A lone tensor, as motion models have; of many, each would be a kernel of its own."""
    return (
        kernels is not None
        and len(params) == 1
        and params[0].is_cuda
        and params[0].dim() == 1
        and params[0].dtype == torch.float32
    )


def _moved(
    param: Tensor, grad: Tensor, mean: Tensor, square: Tensor, momentum: Tensor, rate: Tensor, square_share: Tensor
) -> None:
    count = param.numel()
    kernels.adam_kernel[(-(-count // _BLOCK),)](
        param, grad, mean, square, momentum, rate, square_share, count, BETA2=_BETA2, EPSILON=_EPSILON, BLOCK=_BLOCK
    )
