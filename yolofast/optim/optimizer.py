"""The optimizer of a training step: its parameter groups, what all kinds share, and the moving average of the weights.

Learning rates and momentum live on the device, so that a captured CUDA graph reads what the schedule says. Torch's own
SGD takes momentum as a Python number, which a graph would freeze, and YOLOv7 warms it up (Adam: see `adam.py`).

The average is what is evaluated and shipped. Its decay grows from 0, so that the first weights are forgotten quickly.
It is computed on the device, so that moving the average does not wait for the host.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from yolofast.extensions import OPTIMIZERS, found
from yolofast.optim.one_kernel import AddressTable, average_in_one, table_of
from yolofast.precision import kernels_for

YOLOV7_DECAY = 0.9999
RAMP = 2000.0
"""Updates in which the decay rises to 63 % of what it ends at."""
BIASES = 2
"""The index of the biases' group: they warm up from a learning rate of their own."""


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """YOLOv7's three groups, in the published order: scales of normalisation and implicit layers, weights, biases.

    Only weights are decayed. Frozen parameters are left out: nothing ever moves them.
    """
    scales, weights, biases = [], [], []
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            if name == "bias":
                biases.append(parameter)
            elif isinstance(module, _NormBase) or name == "implicit":
                scales.append(parameter)
            else:
                weights.append(parameter)
    return [
        {"params": scales, "weight_decay": 0.0},
        {"params": weights, "weight_decay": weight_decay},
        {"params": biases, "weight_decay": 0.0},
    ]


def split_groups(
    groups: Sequence[dict[str, Any]], part_of: Callable[[nn.Parameter], int], parts: int
) -> list[dict[str, Any]]:
    """Every group once for each part, part by part: first all groups with the parameters of part 0."""
    return [
        {**group, "params": [parameter for parameter in group["params"] if part_of(parameter) == part]}
        for part in range(parts)
        for group in groups
    ]


class Optimizer(ABC):
    """Groups are `{"params": [...], "weight_decay": …}`; `set` before each `step`."""

    kinds: ClassVar[tuple[str, ...]]
    """The state of each parameter, by its name in the state dict; all start at 0."""

    def __init__(self, groups: Sequence[dict[str, Any]]) -> None:
        self._params: list[list[Tensor]] = [list(group["params"]) for group in groups]
        self._decay = [float(group["weight_decay"]) for group in groups]
        self._state = {kind: [[torch.zeros_like(p) for p in params] for params in self._params] for kind in self.kinds}
        device = next(p.device for params in self._params for p in params)
        self.lr = [torch.zeros((), device=device) for _ in groups]
        self.momentum = torch.zeros((), device=device)
        self._tables: dict[int, AddressTable | None] = {}
        """By group, of those kinds whose update is one kernel."""

    @abstractmethod
    def step(self) -> None: ...

    @property
    def weight_decay(self) -> float:
        """Of the groups that are decayed."""
        return max(self._decay)

    def regrouped(self, groups: Sequence[dict[str, Any]]) -> Self:
        """One of the same kind for other groups. Parameters that stay keep their state, in the same memory."""
        changed = type(self)(groups)
        for kind, own in self._state.items():
            known = {id(p): state for p, state in zip(_flat(self._params), _flat(own), strict=True)}
            changed._state[kind] = [
                [known.get(id(p), new) for p, new in zip(params, fresh, strict=True)]
                for params, fresh in zip(changed._params, changed._state[kind], strict=True)
            ]
        return changed

    def set(self, lr: Sequence[float], momentum: float) -> None:
        """A learning rate for each group. No wait for the device: numbers travel as arguments of the fill."""
        for tensor, value in zip(self.lr, lr, strict=True):
            tensor.fill_(value)
        self.momentum.fill_(momentum)

    def tensors(self) -> list[Tensor]:
        """What a step changes besides the parameters."""
        return [tensor for groups in self._state.values() for tensor in _flat(groups)]

    def state_dict(self) -> dict[str, Any]:
        return dict(self._state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for kind, own in self._state.items():
            for tensors, values in zip(own, state[kind], strict=True):
                for tensor, value in zip(tensors, values, strict=True):
                    refill(tensor, value)

    def _gradients(self, group: int) -> list[Tensor]:
        grads = [p.grad for p in self._params[group] if p.grad is not None]
        assert len(grads) == len(self._params[group]), "a parameter has no gradient: freeze what does not learn"
        return grads


def refill(tensor: Tensor, value: Tensor) -> None:
    """With what was saved of it: copying alone would repeat a value of another shape."""
    if value.shape != tensor.shape:
        raise ValueError(f"a tensor of {list(value.shape)} where one of {list(tensor.shape)} was expected")
    tensor.copy_(value)


def build_optimizer(name: str, groups: Sequence[dict[str, Any]]) -> Optimizer:
    optimizer: Optimizer = found(OPTIMIZERS[name])(groups)
    return optimizer


def _flat(groups: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    return [tensor for group in groups for tensor in group]


class ModelEma:
    """`model` is the average; `update()` moves it towards the trained one.

    `mean_from` epochs on it is the plain mean of the weights after each update since: late weights scatter around
    where they would settle. Which update that was first is a number on the device, as a captured graph needs it.
    """

    def __init__(
        self, trained: nn.Module, decay: float = YOLOV7_DECAY, ramp: float = RAMP, mean_from: int | None = None
    ) -> None:
        """`mean_from` is an epoch, from 0; None: never."""
        self.ramp, self.mean_from = ramp, mean_from
        self.model = copy.deepcopy(trained).eval().requires_grad_(False)
        self.decay = decay
        source, target = trained.state_dict(), self.model.state_dict()
        moving = [name for name, value in target.items() if value.is_floating_point()]
        self._source, self._target = [source[n] for n in moving], [target[n] for n in moving]
        counts = [name for name in target if name not in set(moving)]
        self._counted, self._counts = [source[n] for n in counts], [target[n] for n in counts]
        self._table = table_of(self._source, self._target) if kernels_for(self._target[0]) else None
        device = self._target[0].device
        self.updates = torch.zeros((), dtype=torch.float64, device=device)
        self.before_mean = torch.full_like(self.updates, torch.inf)
        """Updates there were when the plain mean began; infinite until then."""

    def start_epoch(self, epoch: int) -> None:
        """Before its first update."""
        if self.mean_from is None:
            return
        if epoch < self.mean_from:
            self.before_mean.fill_(torch.inf)  # a resumed run that was given more epochs
        elif epoch == self.mean_from:
            self.before_mean.copy_(self.updates)

    @torch.no_grad()
    def update(self) -> None:
        self.updates += 1
        share = 1 - self.decay * (1 - torch.exp(-self.updates / self.ramp))
        if self.mean_from is not None:
            counted = self.updates - self.before_mean
            share = torch.where(counted >= 1, 1 / counted.clamp(min=1), share)
        share = share.float()
        # average += share · (trained - average)
        if kernels_for(share) and self._table is not None:
            average_in_one(self._table, share)
        else:
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
        self.model, self.decay, self.mean_from = trained, 0.0, None
        self.updates = torch.zeros((), dtype=torch.float64, device=next(trained.parameters()).device)
        self.before_mean = torch.full_like(self.updates, torch.inf)

    def update(self) -> None:
        self.updates += 1
