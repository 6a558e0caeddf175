"""The ranks after the first: they train and evaluate their parts, and leave talking and writing to it.

Evaluation by all ranks, each on its part of the batches; the result is that of one process that has seen all.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch.distributed as dist
from rich.console import Console

from yolofast.detect.accumulator import Evaluated, MetricAccumulator
from yolofast.loader.validation_batches import ValidationBatches
from yolofast.ranks import is_first, rank, world
from yolofast.train.checkpoints import Checkpoints
from yolofast.train.display import Display
from yolofast.train.record import Recorder


def quiet_display(epochs: int) -> Display:
    return Display(epochs, Console(quiet=True))


class NoCheckpoints(Checkpoints):
    """Those of the first rank are everybody's."""

    def __init__(self) -> None:
        pass

    def has(self, name: str) -> bool:
        return True

    def save(self, content: dict[str, Any], *names: str) -> None:
        pass

    def finish(self) -> None:
        pass


class NoRecorder(Recorder):
    def __init__(self) -> None:
        super().__init__(Path())

    def epoch(self, row: dict[str, Any]) -> None:
        pass


def own_part(batches: ValidationBatches) -> ValidationBatches:
    """Every so many batches, as many as there are ranks: neighbours have similar shapes and cost the same."""
    if world() == 1:
        return batches
    own = slice(rank(), None, world())
    return replace(batches, parts=batches.parts[own], shapes=batches.shapes[own])


def joint_result(tally: MetricAccumulator, *, v5_metric: bool) -> Evaluated:
    """The first rank puts the parts together and tells the others, so that all decide alike."""
    if world() == 1:
        return tally.result(v5_metric=v5_metric)
    tallies: list[MetricAccumulator] | None = [tally] * world() if is_first() else None
    dist.gather_object(tally, tallies)
    told: list[Evaluated | None] = [None]
    if tallies is not None:
        whole, *others = tallies
        for other in others:
            whole.merge(other)
        told = [whole.result(v5_metric=v5_metric)]
    dist.broadcast_object_list(told)
    assert told[0] is not None
    return told[0]
