"""A step that does everything but assign: what an assigner costs is the difference to it.

The assigner is asked once; from then on its answer is memory that is read. Shapes, the losses and all that follows are
the same, so the difference holds in every gear. The losses mean nothing.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from yolofast.structures import Assignment, LossTerms, Targets
from yolofast.train.losses.yolox_criterion import YoloXCriterion
from yolofast.train.run import Run


class HeldAssignment:
    def __init__(self, criterion: YoloXCriterion, raw: Sequence[Tensor], targets: Targets) -> None:
        """`raw` and `targets` of any batch of the shape to come."""
        self._criterion = copy.copy(criterion)
        held: list[list[Assignment]] = []

        def remember(maps: Sequence[Tensor], targets: Targets) -> list[Assignment]:
            held.append(criterion.assign(maps, targets))
            return held[0]

        def read(maps: Sequence[Tensor], targets: Targets) -> list[Assignment]:
            last = targets.labels.shape[1] - 1  # another batch may have fewer places for boxes
            return [replace(level, target=level.target.clamp(max=last)) for level in held[0]]

        self._criterion.assign = remember  # type: ignore[method-assign]
        self._criterion(raw, targets)
        self._criterion.assign = read  # type: ignore[method-assign]

    def __call__(self, raw: Sequence[Tensor], targets: Targets) -> LossTerms:
        return self._criterion(raw, targets)


class HeldLosses:
    """In place of a run's losses: the same one in every epoch."""

    def __init__(self, criterion: HeldAssignment) -> None:
        self._criterion = criterion

    def training(self, epoch: int) -> HeldAssignment:
        return self._criterion


def with_held_assignment(run: Run) -> Run:
    run.start_epoch(0)
    criterion = run.step.criterion
    assert isinstance(criterion, YoloXCriterion), "only YOLOX's assignment can be held"
    batch = run.step.on_device(next(run.batches.epoch(0)))
    with torch.no_grad(), run.step.precision.autocast():
        raw = run.step.model(run.model.inputs.as_input(batch.images))
        held: Any = HeldLosses(HeldAssignment(criterion, raw, batch.targets))
    return replace(run, losses=held)
