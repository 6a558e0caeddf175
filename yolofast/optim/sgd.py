"""SGD with Nesterov momentum: the arithmetic of `torch.optim.SGD`, and a test compares the two."""

import torch

from yolofast.optim.optimizer import Optimizer


class Sgd(Optimizer):
    kinds = ("velocity",)

    @torch.no_grad()
    def step(self) -> None:
        for group, params in enumerate(self._params):
            if not params:
                continue
            grads, velocity, decay = self._gradients(group), self._state["velocity"][group], self._decay[group]
            if decay:
                torch._foreach_add_(grads, params, alpha=decay)
            torch._foreach_mul_(velocity, self.momentum)
            torch._foreach_add_(velocity, grads)
            # Nesterov: the gradient plus what momentum will do with the velocity.
            ahead = torch._foreach_mul(velocity, self.momentum)
            torch._foreach_add_(ahead, grads)
            torch._foreach_mul_(ahead, self.lr[group])
            torch._foreach_sub_(params, ahead)
