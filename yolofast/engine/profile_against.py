"""Two runs measured in turn, a few steps each: what drifts meanwhile hits both alike."""

from dataclasses import replace
from typing import NamedTuple

from yolofast.engine.profile_run import Meter, Request, Say
from yolofast.engine.setup import Run
from yolofast.profile.comparison import Comparison, compare
from yolofast.profile.records import Profile

STEPS_PER_BLOCK, LEAST_BLOCKS = 5, 2


class Against(NamedTuple):
    first: Profile
    second: Profile
    comparison: Comparison


def profile_against(
    first: Run, second: Run, request: Request, say: Say, steps_per_block: int = STEPS_PER_BLOCK
) -> Against:
    """`request.steps` of each, in whole blocks, `LEAST_BLOCKS` at least; a trace is that of the first."""
    meters = Meter(first, say, request.epoch), Meter(second, say, request.epoch)
    for meter in meters:
        meter.warm_up(request.warm_up)
    times: tuple[list[float], list[float]] = [], []
    for pair in range(max(request.steps // steps_per_block, LEAST_BLOCKS)):
        for turn in (0, 1) if pair % 2 == 0 else (1, 0):  # who comes first is in turn, too
            per_step = meters[turn].block(steps_per_block, in_turn=True)
            times[turn].append(per_step / meters[turn].run.source_images_per_step)
    return Against(meters[0].profile(request), meters[1].profile(replace(request, trace=None)), compare(*times))
