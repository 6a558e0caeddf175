"""A moving average of a model's weights and statistics, moved inside the step.

What is evaluated and shipped is the average. Its decay grows from 0, so that the first weights are forgotten quickly.
The decay is computed on the device, so that moving the average does not wait for the host.
"""

import copy
from typing import Any

import torch
from torch import nn

YOLOV7_DECAY = 0.9999
_RAMP = 2000.0


class ModelEma:
    """`model` is the average; `update()` moves it towards the trained one."""

    def __init__(self, trained: nn.Module, decay: float = YOLOV7_DECAY) -> None:
        self.model = copy.deepcopy(trained).eval().requires_grad_(False)
        self.decay = decay
        source, target = trained.state_dict(), self.model.state_dict()
        moving = [name for name, value in target.items() if value.is_floating_point()]
        self._source, self._target = [source[n] for n in moving], [target[n] for n in moving]
        counts = [name for name in target if name not in set(moving)]
        self._counted, self._counts = [source[n] for n in counts], [target[n] for n in counts]
        device = self._target[0].device
        self.updates = torch.zeros((), dtype=torch.float64, device=device)

    @torch.no_grad()
    def update(self) -> None:
        self.updates += 1
        share = (1 - self.decay * (1 - torch.exp(-self.updates / _RAMP))).float()
        # average += share · (trained - average)
        difference = torch._foreach_sub(self._source, self._target)
        torch._foreach_mul_(difference, share)
        torch._foreach_add_(self._target, difference)
        if self._counts:
            torch._foreach_copy_(self._counts, self._counted)

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.updates.copy_(torch.as_tensor(state["updates"]))


class NotAveraged(ModelEma):
    """For recipes without an average: what is evaluated and shipped is the trained model itself."""

    def __init__(self, trained: nn.Module) -> None:
        self.model, self.decay = trained, 0.0
        self.updates = torch.zeros((), dtype=torch.float64, device=next(trained.parameters()).device)

    def update(self) -> None:
        self.updates += 1
