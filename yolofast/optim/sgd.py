"""SGD with Nesterov momentum: the arithmetic of `torch.optim.SGD`, and a test compares the two."""

import torch

from yolofast.optim.one_kernel import AddressTable, sgd_in_one, table_of
from yolofast.optim.optimizer import Optimizer
from yolofast.precision import kernels_for


class Sgd(Optimizer):
    kinds = ("velocity",)

    @torch.no_grad()
    def step(self) -> None:
        for group, params in enumerate(self._params):
            if not params:
                continue
            grads, velocity, decay = self._gradients(group), self._state["velocity"][group], self._decay[group]
            if (table := self._table(group)) is not None:
                sgd_in_one(table, grads, self.lr[group], self.momentum, decay)
                continue
            if decay:
                torch._foreach_add_(grads, params, alpha=decay)
            torch._foreach_mul_(velocity, self.momentum)
            torch._foreach_add_(velocity, grads)
            # Nesterov: the gradient plus what momentum will do with the velocity.
            ahead = torch._foreach_mul(velocity, self.momentum)
            torch._foreach_add_(ahead, grads)
            torch._foreach_mul_(ahead, self.lr[group])
            torch._foreach_sub_(params, ahead)

    def _table(self, group: int) -> AddressTable | None:
        if not kernels_for(self.momentum):
            return None
        if group not in self._tables:
            self._tables[group] = table_of(self._params[group], self._state["velocity"][group])
        return self._tables[group]
