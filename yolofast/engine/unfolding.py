"""Weights whose BatchNorm was folded away are made ready to learn: statistics first, then the lengths of filters.

Both are measured on the first batches of the run, in a pass of their own each, so that no batch has to be kept.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

from torch import Tensor

from yolofast.engine.filter_lengths import settle_filter_lengths
from yolofast.engine.measured_batch_norm import measure_batch_norm
from yolofast.engine.plan import Plan
from yolofast.engine.step import TrainStep
from yolofast.model.contract import Network
from yolofast.structures import Batch

_MEASURED_BATCHES = 8


class BatchSource(Protocol):
    def epoch(self, number: int, start_batch: int = 0) -> Iterator[Batch]: ...


def unfold_batch_norm(
    step: TrainStep, plan: Plan, batches: BatchSource, per_update: int, say: Callable[[str], None]
) -> None:
    """The network goes on computing what it did. `per_update` is how many batches' gradients are added up."""
    model = step.model
    assert isinstance(model, Network)

    def first() -> Iterator[Batch]:
        return islice(batches.epoch(0), _MEASURED_BATCHES)

    inputs = (model.inputs.as_input(step.on_device(batch).images).float() for batch in first())
    measure_batch_norm(model, inputs)
    learning = [
        layer.module for index, layer in enumerate(model.layers) if any(index in p.learning for p in plan.phases)
    ]
    lengths = settle_filter_lengths(step, first(), learning, per_update)
    step.ema.model.load_state_dict(model.state_dict())
    measured = _measured(lengths)
    say(f"weights: BatchNorm was folded away; {measured} on the first batches. The network computes what it did")


def _measured(lengths: Tensor) -> str:
    if not len(lengths):
        return "its statistics are measured"
    reach = f"{float(lengths.min()):.2g} to {float(lengths.max()):.2g}"
    return f"its statistics and the lengths with which filters learn at the usual pace ({reach}) are measured"
