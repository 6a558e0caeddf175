"""The bottlenecks of a profile, the costliest first, and how near the step is to the limits of the device.

A floor is the time of a step that had only that one limit, at the speed measured in the same run. The largest floor is
the limit.
"""

from collections.abc import Callable
from dataclasses import dataclass

from yolofast.profile.data_bottlenecks import slow_data, slow_transfer
from yolofast.profile.records import NOTHING, SHARED, Profile, Slowdown, gain, share_of
from yolofast.profile.step_bottlenecks import (
    slow_assignment,
    slow_between,
    slow_host,
    slow_loss,
    slow_update,
    wait_per_step,
)
from yolofast.profile.step_phases import BACKWARD, FORWARD

ARITHMETIC, MEMORY, BUS = "arithmetic", "memory", "bus to the device"
_RULES: tuple[Callable[[Profile], Slowdown | None], ...] = (
    slow_data, slow_transfer, slow_assignment, slow_loss, wait_per_step, slow_host, slow_update, slow_between
)  # fmt: skip
_OTHERS, _ALL_BUSY = 25.0, 85.0
"""Per cent of all cores: what others use at least, and they and training together."""


@dataclass(frozen=True)
class Limit:
    name: str
    floor_ms: float
    reached: float
    """The floor as a share of the step: 1 is at the limit."""
    achieved: float
    ceiling: float
    """Both per second: FLOP or bytes."""


def limits(profile: Profile) -> tuple[Limit, ...]:
    """The nearest first; nothing where nothing was counted."""
    work, ceilings = profile.work, profile.ceilings
    if work is None or ceilings is None:
        return ()
    pairs = [(ARITHMETIC, work.flops, ceilings.flops), (MEMORY, work.bytes, ceilings.bytes)]
    if ceilings.sent_bytes and work.sent_bytes:
        pairs.append((BUS, work.sent_bytes, ceilings.sent_bytes))
    step_ms, found = profile.step.mean, []
    for name, amount, ceiling in pairs:
        floor_ms, achieved = amount / ceiling * 1e3, amount / step_ms * 1e3
        found.append(Limit(name, floor_ms, floor_ms / step_ms, achieved, ceiling))
    return tuple(sorted(found, key=lambda limit: -limit.floor_ms))


def verdicts(profile: Profile) -> tuple[Slowdown, ...]:
    """The costliest first; at least one, which may say that nothing is wrong."""
    found = [verdict for rule in _RULES if (verdict := rule(profile)) is not None]
    return tuple(sorted(found, key=lambda verdict: -verdict.saved_ms)) or (_shared(profile) or _nothing(profile),)


def _shared(profile: Profile) -> Slowdown | None:
    """The network takes the step, but other programs have the cores: no limit of its own."""
    usage, cores = profile.usage, profile.setup.cores
    own = usage.main_cpu + (usage.worker_cpu or 0.0)
    if profile.setup.on_gpu or usage.others_cpu < _OTHERS * cores or usage.others_cpu + own < _ALL_BUSY * cores:
        return None
    saved_ms = profile.step.mean * usage.others_cpu / (usage.others_cpu + own)
    text = f"the machine is shared: other programs use {usage.others_cpu / 100:.1f} of its {cores} cores, training has "
    change = "wait until they have ended, or give each its cores: OMP_NUM_THREADS, taskset"
    return Slowdown(SHARED, f"{text}{own / 100:.1f}", change, gain(profile, saved_ms), saved_ms)


def _nothing(profile: Profile) -> Slowdown:
    busy, network = profile.usage.gpu_busy, share_of(profile, profile.phase_ms(FORWARD, BACKWARD))
    evidence = f"the network itself takes {network:.0%} of the step"
    if busy is not None:
        evidence = f"the GPU is busy {busy:.0%} of the time"
    if nearest := limits(profile)[:1]:
        evidence += f"; nearest limit: {nearest[0].name}, {nearest[0].reached:.0%} of it used"
    return Slowdown(NOTHING, f"nothing is wrong: {evidence}", _still_possible(profile))


def _still_possible(profile: Profile) -> str:
    setup = profile.setup
    if setup.on_gpu and setup.precision == "fp32":
        return "--precision bf16 computes in half the bytes"
    if setup.on_gpu and not setup.compiled and not setup.graph_failed and not setup.compile_failed:
        return "--gear graph compiles too: fewer and larger kernels"
    return "" if setup.on_gpu else "faster only with a GPU, a smaller --img-size or a smaller --cfg"
