"""The gear in which a run spends its time, at once: compiled here and now, where training has it done beside it."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from yolofast.config.environment import compile_request
from yolofast.engine.compiling import compiled_loss_of
from yolofast.engine.gear_box import WORTH_COMPILING
from yolofast.engine.gears import EagerGear, Gear, GearName, GraphGear, tried_only
from yolofast.engine.multi_scale import as_it_is
from yolofast.engine.setup import Run
from yolofast.engine.step import StepKind, TrainStep
from yolofast.structures import Batch

_ALONE = StepKind(sums=False, updates=True)
_TIMED_STEPS = 5


class ProfiledGear(NamedTuple):
    gear: Gear
    name: str
    captured: bool
    compiled: bool
    graph_failed: str = ""
    compile_failed: str = ""
    """Why, if it was tried."""


def gear_to_profile(run: Run, batch: Batch, say: Callable[[str], None]) -> ProfiledGear:
    """As `choose_gear` decides for a run of this length, or the next lower one if it fails; `batch` is one of its own,
    on the device."""
    asked, on_gpu = compile_request(run.config.gear).gear, run.step.precision.device.type == "cuda"
    name: GearName = ("graph" if on_gpu else "eager") if asked == "auto" else asked
    if name == "graph" and not on_gpu:
        say("gear: eager (graphs need a GPU)")
        name = "eager"
    lower = _uncompiled(name, run.step, batch, say)
    one_shape = run.resize is as_it_is and not run.config.rect
    if name == "eager" or not one_shape or (asked == "auto" and _seconds_of(run, lower.gear, batch) < WORTH_COMPILING):
        return lower
    return _compiled(name, run.step, batch, say, lower)


def _uncompiled(name: GearName, step: TrainStep, batch: Batch, say: Callable[[str], None]) -> ProfiledGear:
    failed = ""
    if name == "graph":
        graph = GraphGear(step)
        failed = _failure(graph, step, batch, say)
        if not failed:
            return ProfiledGear(graph, "graph", captured=True, compiled=False)
    return ProfiledGear(EagerGear(step), "eager", captured=False, compiled=False, graph_failed=failed)


def _compiled(
    name: GearName, step: TrainStep, batch: Batch, say: Callable[[str], None], lower: ProfiledGear
) -> ProfiledGear:
    say("compiling, which may take minutes (--gear eager does without)")
    loss_of, captured = compiled_loss_of(step), name == "graph"
    gear = GraphGear(step, loss_of) if captured else EagerGear(step, loss_of)
    if failed := _failure(gear, step, batch, say):
        return lower._replace(compile_failed=failed)
    return ProfiledGear(gear, "graph, compiled" if captured else "compiled", captured=captured, compiled=True)


def _seconds_of(run: Run, gear: Gear, batch: Batch) -> float:
    """How long the whole run would take in this gear on its GPU, data aside."""
    with tried_only(run.step):
        gear.run(batch, _ALONE)
        torch.cuda.synchronize(run.step.precision.device)
        begun = time.perf_counter()
        for _ in range(_TIMED_STEPS):
            gear.run(batch, _ALONE)
        torch.cuda.synchronize(run.step.precision.device)
    return (time.perf_counter() - begun) / _TIMED_STEPS * run.config.epochs * len(run.batches)


def _failure(gear: Gear, step: TrainStep, batch: Batch, say: Callable[[str], None]) -> str:
    """Empty if it works."""
    try:
        with tried_only(step):
            gear.run(batch, _ALONE)
    except Exception as error:  # noqa: BLE001 - whatever it is: training would go on in a lower gear too
        reason = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"
        say(f"gear: {reason}; a lower gear is profiled, as it would be trained in")
        return reason
    return ""
