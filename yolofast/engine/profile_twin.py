"""A look into regions that cannot be timed inside: the same step, not compiled or not captured, on the same batches."""

from collections.abc import Callable
from typing import NamedTuple

from yolofast.engine.gear_box import GearBox
from yolofast.engine.profile_loop import StepLoop
from yolofast.engine.profile_sampler import PhaseSampler
from yolofast.profile.phases import ASSIGN, BACKWARD, EMA, FORWARD, FUSED, GRAPH, LOSS, OPTIMIZER
from yolofast.profile.records import PhaseFigures
from yolofast.profile.statistics import phase_figures

_WARM_UP, _STEPS = 8, 16
_IN_REGION = (ASSIGN, LOSS)
_IN_GRAPH = (FORWARD, *_IN_REGION, BACKWARD, OPTIMIZER, EMA)


class Split(NamedTuple):
    parts: tuple[PhaseFigures, ...] = ()
    of: str = ""
    by: str = ""


def split_by_twin(
    chosen: GearBox, loop: StepLoop, sampler_for: Callable[[GearBox], PhaseSampler], *, in_graphs: bool
) -> Split:
    """Nothing where the step itself can be looked into; `in_graphs`: graphs can."""
    closed = chosen.captured and not in_graphs
    if not closed and not chosen.compiled:
        return Split()
    captured = chosen.captured and in_graphs
    twin = chosen.twin(captured=captured)
    sampler = sampler_for(twin)
    for count in (_WARM_UP, _STEPS):
        sampler.take()
        loop.steps(count, twin, sampler)
        loop.wait()
    steps = [
        {name: ms for name, ms in sample.phases.items() if name in (_IN_GRAPH if closed else _IN_REGION)}
        for sample in sampler.take()
        if GRAPH not in sample.phases
    ]
    how = "captured but not compiled" if captured else "neither compiled nor captured"
    return Split(phase_figures(steps), GRAPH if closed else FUSED, f"a twin of the step that is {how}")
