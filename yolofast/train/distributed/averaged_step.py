"""A step of one rank among several: gradients are averaged over the ranks before weights move."""

import gc
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from yolofast.config.common import Gear
from yolofast.ranks import sum_over_ranks, world
from yolofast.train.step import RunningLosses, TrainStep


def distribute(step: TrainStep) -> None:
    """Let the step's batches be parts of a larger one. The model itself stays what it was, for weights and averages.

    Statistics are not broadcast before each step: training does not read them, and `even_out` makes them the
    first rank's before anybody does. To be called again when other parameters have come to require gradients.
    """
    if world() == 1:
        return
    step.forward, step.alone = step.model, nullcontext
    gc.collect()  # an earlier one would go on listening to the gradients
    device = step.precision.device
    # The layout of a gradient that is a single row has several names, which torch takes for a mistake.
    warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # broadcast_buffers has got another name in torch 2.13
        shared = DistributedDataParallel(
            step.model,
            device_ids=[device] if device.type == "cuda" else None,
            broadcast_buffers=False,
            gradient_as_bucket_view=False,  # summed gradients have memory of their own, which views would leave
        )
    step.forward, step.alone = shared, shared.no_sync
    for tensor in step.ema.model.state_dict().values():
        dist.broadcast(tensor, src=0)


@torch.no_grad()
def even_out(step: TrainStep) -> None:
    """At the end of an epoch all ranks have the state that the first one saves.

    Gradients that wait for an update are averaged, so that any number of ranks can go on with them. BatchNorm
    statistics are the first rank's, as published: those of its own part of the batches, unless they are synchronised.
    """
    if world() == 1:
        return
    for pending in step.pending_gradients:
        dist.all_reduce(pending)
        pending /= world()
    for model in (step.model, step.ema.model):
        for statistics in model.buffers():
            dist.broadcast(statistics, src=0)


def mean_losses(losses: RunningLosses) -> dict[str, float]:
    """Means over all ranks since `reset`. Waits for the device, and for the others."""
    own: dict[str, Any] = losses.means()
    if world() == 1:
        return own
    values = sum_over_ranks(torch.tensor(list(own.values()), dtype=torch.float64)) / world()
    return dict(zip(own, values.tolist(), strict=True))


def gear_of_ranks(gear: Gear, say: Callable[[str], None]) -> Gear:
    """Several ranks run the step as written: graphs and compiled steps would have to contain their exchange."""
    if world() == 1 or gear == "eager":
        return gear
    if gear != "auto":
        say(f"gear: eager instead of {gear}, which runs on one GPU only")
    return "eager"
