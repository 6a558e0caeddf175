"""Evaluation by all ranks, each on its part of the batches; the result is that of one process that has seen all."""

from dataclasses import replace

import torch.distributed as dist

from yolofast.engine.tally import Evaluated, Tally
from yolofast.loader.validation import ValidationBatches
from yolofast.ranks import is_first, rank, world


def own_part(batches: ValidationBatches) -> ValidationBatches:
    """Every so many batches, as many as there are ranks: neighbours have similar shapes and cost the same."""
    if world() == 1:
        return batches
    own = slice(rank(), None, world())
    return replace(batches, parts=batches.parts[own], shapes=batches.shapes[own])


def joint_result(tally: Tally, *, v5_metric: bool) -> Evaluated:
    """The first rank puts the parts together and tells the others, so that all decide alike."""
    if world() == 1:
        return tally.result(v5_metric=v5_metric)
    tallies: list[Tally] | None = [tally] * world() if is_first() else None
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
