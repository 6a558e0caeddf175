"""Learning rates, momentum and accumulation as pure functions of where in the run an iteration is.

Nothing is remembered between calls, so a resumed run continues exactly, and a schedule can be printed before it is run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from yolofast.optim.optimizer import BIASES

NOMINAL_BATCH = 64
_GROUPS = 3


@dataclass(frozen=True)
class StepSettings:
    """What one iteration is run with."""

    lr: tuple[float, ...]
    """One per parameter group."""
    momentum: float
    accumulate: int
    """Gradients of that many batches make one update."""
    averaged: int = 1
    """What their sum is divided by. Above 1, batches are counted from the epoch's first one, and an update does not
    wait for what the epoch lacks: its last one is smaller."""

    def updates(self, iteration: int, batch: int, batches: int) -> bool:
        """Whether weights move after an iteration of the run, `batch` of its epoch's `batches`; all count from 0."""
        if self.averaged == 1:
            return iteration % self.accumulate == 0
        return (batch + 1) % self.accumulate == 0 or batch + 1 == batches

    def of_larger_updates(self, times: int) -> "StepSettings":
        """The mean of so many updates' gradients in each. Rates stay: each image counts less, and so does noise."""
        return self if times == 1 else replace(self, accumulate=times * self.accumulate, averaged=times)


class RunSchedule(Protocol):
    """What a family's schedule is to a run: a dataclass, so that a plan can give it another warm-up."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def warmup_shape(self) -> str:
        """In words."""

    def at(self, epoch: int, batch: int) -> StepSettings:
        """For a batch of an epoch, both counted from 0."""

    @property
    def batches(self) -> int:
        """Of an epoch."""

    @property
    def warmup_epochs(self) -> float: ...

    @property
    def warmup(self) -> int:
        """In iterations."""


@dataclass(frozen=True, kw_only=True)
class YoloV7Schedule:
    """A linear warm-up, then cosine or linear decay by epoch; `one_cycle` falls in a line from batch to batch.

    `lr` is not scaled by the batch size. During warm-up the learning rate rises from 0 (biases: falls from
    `warmup_bias_lr`), momentum from `warmup_momentum`, and accumulation to the nominal batch of 64.
    """

    epochs: int
    batches: int
    """Of an epoch."""
    batch_size: int
    lr: float
    final_share: float
    """lrf: the last learning rate as a share of the first."""
    momentum: float
    warmup_epochs: float
    warmup_momentum: float
    warmup_bias_lr: float
    shape: Literal["cosine", "linear", "flat_cosine", "one_cycle"] = "cosine"
    least_warmup: int = 1000
    """Iterations the warm-up lasts at least, as published, whether or not the run is that long."""
    flat_share: float = 0.5
    """flat_cosine: the share of the epochs before the decay starts."""
    nominal_batch: int = NOMINAL_BATCH
    """Smaller batches are added up to about this many images before an update."""
    warmup_iterations: int | None = None
    """Of the warm-up, whatever `warmup_epochs` says."""
    update_batches: Sequence[float] = ()
    """By epoch: how many updates' gradients are averaged to one; of none: 1."""

    @property
    def warmup_shape(self) -> str:
        return "linear"

    @property
    def warmup(self) -> int:
        """Iterations; 0 without one."""
        if self.warmup_iterations is not None:
            return self.warmup_iterations
        return max(round(self.warmup_epochs * self.batches), self.least_warmup) if self.warmup_epochs > 0 else 0

    def factor(self, epoch: int) -> float:
        """The learning rate of an epoch as a share of the first."""
        if self.shape == "linear":
            return (1 - epoch / max(self.epochs - 1, 1)) * (1 - self.final_share) + self.final_share
        start = self.flat_share * self.epochs if self.shape == "flat_cosine" else 0.0
        done = max(epoch - start, 0) / (self.epochs - start)
        return (1 - math.cos(math.pi * done)) / 2 * (self.final_share - 1) + 1

    def at(self, epoch: int, batch: int) -> StepSettings:
        return self._by_iteration(epoch, batch).of_larger_updates(_times(self.update_batches, epoch))

    def _by_iteration(self, epoch: int, batch: int) -> StepSettings:
        accumulate = max(round(self.nominal_batch / self.batch_size), 1)
        iteration = epoch * self.batches + batch
        if self.shape == "one_cycle":
            lr = self.lr * falling(iteration - self.warmup, self.epochs * self.batches - self.warmup, self.final_share)
        else:
            lr = self.lr * self.factor(epoch)
        if iteration > self.warmup or not self.warmup:
            return StepSettings((lr,) * _GROUPS, self.momentum, accumulate)

        def rising(start: float, end: float) -> float:
            return float(np.interp(iteration, (0, self.warmup), (start, end)))

        starts = [self.warmup_bias_lr if group == BIASES else 0.0 for group in range(_GROUPS)]
        return StepSettings(
            tuple(rising(start, lr) for start in starts),
            rising(self.warmup_momentum, self.momentum),
            max(round(rising(1, self.nominal_batch / self.batch_size)), 1),
        )


@dataclass(frozen=True, kw_only=True)
class YoloXSchedule:
    """`yoloxwarmcos`: a quadratic warm-up, a cosine down to the minimum, which is held while nothing is augmented.

    `one_cycle` is two lines instead, up and down to the run's end.
    """

    epochs: int
    batches: int
    lr: float
    """Already multiplied by the batch size."""
    momentum: float
    min_share: float = 0.05
    warmup_epochs: float = 5
    plain_epochs: int = 15
    warmup_lr: float = 0.0
    warmup_iterations: int | None = None
    """Of the warm-up, whatever `warmup_epochs` says."""
    one_cycle: bool = False
    update_batches: Sequence[float] = ()
    """By epoch: how many batches' gradients are averaged to an update; of none: 1."""

    @property
    def warmup_shape(self) -> str:
        return "linear" if self.one_cycle else "quadratic"

    @property
    def warmup(self) -> int:
        """In iterations."""
        return round(self.warmup_epochs * self.batches) if self.warmup_iterations is None else self.warmup_iterations

    def at(self, epoch: int, batch: int) -> StepSettings:
        settings = StepSettings((self.rate(epoch * self.batches + batch + 1),) * _GROUPS, self.momentum, 1)
        return settings.of_larger_updates(_times(self.update_batches, epoch))

    def rate(self, iteration: int) -> float:
        """The learning rate of the iteration, counted from 1."""
        warmup, last = self.warmup_epochs * self.batches, (self.epochs - self.plain_epochs) * self.batches
        warmup = warmup if self.warmup_iterations is None else self.warmup_iterations
        least = self.lr * self.min_share
        if iteration <= warmup:
            return (self.lr - self.warmup_lr) * (iteration / warmup) ** (2 - self.one_cycle) + self.warmup_lr
        if self.one_cycle:
            return self.lr * falling(iteration - 1 - warmup, self.epochs * self.batches - warmup, self.min_share)
        if iteration >= last:
            return least
        return least + 0.5 * (self.lr - least) * (1 + math.cos(math.pi * (iteration - warmup) / (last - warmup)))


def _times(by_epoch: Sequence[float], epoch: int) -> int:
    return int(by_epoch[epoch]) if by_epoch else 1


def falling(iteration: float, iterations: float, final_share: float) -> float:
    """In a line from 1 at iteration 0 to `final_share` behind the last: so that none is spent at a rate of 0."""
    return 1 - (1 - final_share) * min(max(iteration, 0) / max(iterations, 1), 1)


def scaled_decay(weight_decay: float, batch_size: int, nominal_batch: int = NOMINAL_BATCH) -> float:
    """Decay acts once per update, so it grows with the images of an update."""
    accumulate = max(round(nominal_batch / batch_size), 1)
    return weight_decay * batch_size * accumulate / nominal_batch


def auto_lr(lr: float, warmup_epochs: float, batch_size: int) -> tuple[float, float]:
    """`--auto-lr`: beyond a batch of 64 the learning rate grows by the root, and from 128 on the warm-up is longer."""
    if batch_size > NOMINAL_BATCH:
        lr *= math.sqrt(batch_size / NOMINAL_BATCH)
    return lr, max(warmup_epochs, 5) if batch_size >= 2 * NOMINAL_BATCH else warmup_epochs
