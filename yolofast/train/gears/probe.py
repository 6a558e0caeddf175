"""Marks at the boundaries of a step's phases, as written, compiled or captured.

The step and its losses stay as they are: what is timed is a copy of the loss whose `assign` says when it begins and
ends. A compiled region is never marked inside, because that would be another region.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from yolofast.loss.criterion import Criterion
from yolofast.profile.step_phases import ASSIGN, LOSS
from yolofast.structures import LossTerms, Targets
from yolofast.train.losses.multihead_criterion import MultiHeadCriterion
from yolofast.train.losses.yolov7_criterion import QuadLoss
from yolofast.train.step import TrainStep

Mark = tuple[str, Any]
"""A phase, and the moment at which it begins."""


class Probe:
    """Collects the marks of one step at a time; `take` hands them over."""

    def __init__(self, step: TrainStep, moment: Callable[[], Any], *, in_graphs: bool) -> None:
        """`moment` is a clock's."""
        self._step, self._moment, self.in_graphs = step, moment, in_graphs
        self._on_gpu = step.precision.device.type == "cuda"
        self.phase = ""
        """The one that was begun last."""
        self._marks: list[Mark] = []
        self._in_capture: list[Mark] = []
        self.has_captured = False
        """Since the last `take`: what it timed was not a step like others."""
        self.has_replayed = False
        """Since the last `take`: its marks will be overwritten by the next replay."""

    def mark(self, phase: str) -> None:
        capturing = self._on_gpu and torch.cuda.is_current_stream_capturing()
        marks = self._in_capture if capturing else self._marks
        marks.append((phase, self._moment()))
        self.phase = phase

    def loss_of(self, images: Tensor, targets: Targets) -> LossTerms:
        return marked_loss(self._step, self.mark, images, targets)

    def captured(self) -> Sequence[Mark]:
        marks, self._in_capture = self._in_capture, []
        self.has_captured = True
        return marks

    def replayed(self, marks: Sequence[Mark]) -> None:
        self._marks.extend(marks)
        self.has_replayed = self.has_replayed or bool(marks)

    def take(self) -> list[Mark]:
        marks, self._marks = self._marks, []
        self.has_captured = self.has_replayed = False
        return marks


def marked_loss(step: TrainStep, mark: Callable[[str], None], images: Tensor, targets: Targets) -> LossTerms:
    """What `step.loss_of` computes, with marks in between."""
    raw = step.raw_maps(images)
    mark(LOSS)
    return marked(step.criterion, mark)(raw, targets)


def marked(criterion: Criterion, mark: Callable[[str], None]) -> Criterion:
    """The same loss, which says when it assigns; one that has no `assign` stays a single phase."""
    if isinstance(criterion, QuadLoss):
        return QuadLoss(marked(criterion.criterion, mark))
    if isinstance(criterion, MultiHeadCriterion):
        several = copy.copy(criterion)
        several.heads = [_marked_head(head, mark) for head in criterion.heads]
        return several
    return _marked_head(criterion, mark) if hasattr(criterion, "assign") else criterion


def _marked_head(criterion: Any, mark: Callable[[str], None]) -> Any:
    def assign(*args: Any, **more: Any) -> Any:
        mark(ASSIGN)
        found = criterion.assign(*args, **more)
        mark(LOSS)
        return found

    own = copy.copy(criterion)
    own.assign = assign
    return own
