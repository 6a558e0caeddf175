"""What an epoch to come will be like, and what may be said of a run before it begins."""

from dataclasses import dataclass
from typing import Any, Protocol

from yolofast.config.train import TrainConfig
from yolofast.engine.plan import Phase, Plan
from yolofast.engine.plan_schedule import PlannedSchedule
from yolofast.model.contract import Network


@dataclass(frozen=True, kw_only=True)
class Range:
    """A value at the first and at the last batch of an epoch."""

    first: float
    last: float


@dataclass(frozen=True, kw_only=True)
class EpochFacts:
    epoch: int
    phase: Phase
    lr: dict[str, Range]
    """Of weights, by the name of the scope; those that are frozen are not there."""
    bias_lr: Range
    """Of the scope that learns fastest."""
    momentum: Range
    accumulate: Range
    updates: int
    images: int
    chances: dict[str, float]
    """Of what may happen to an image, as shares of all of them; only mosaics are blended (`mixup`)."""
    loss: str


class Explained(Protocol):
    """What a family may know of a run when it remarks on it (`Explanation` has more)."""

    @property
    def config(self) -> TrainConfig: ...
    @property
    def hyp(self) -> dict[str, Any]: ...
    @property
    def model(self) -> Network: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def schedule(self) -> PlannedSchedule: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def batches(self) -> int: ...
    @property
    def rows(self) -> tuple[EpochFacts, ...]: ...
    @property
    def is_mostly_new(self) -> bool: ...
