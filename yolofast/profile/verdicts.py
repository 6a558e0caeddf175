"""The verdicts on a profile, the costliest first; or that nothing is wrong."""

from collections.abc import Callable

from yolofast.profile.data_verdicts import slow_data, slow_transfer
from yolofast.profile.limits import limits
from yolofast.profile.phases import BACKWARD, FORWARD
from yolofast.profile.records import Profile
from yolofast.profile.step_verdicts import (
    slow_assignment,
    slow_between,
    slow_host,
    slow_loss,
    slow_update,
    wait_per_step,
)
from yolofast.profile.verdict import NOTHING, Verdict, share_of

_RULES: tuple[Callable[[Profile], Verdict | None], ...] = (
    slow_data, slow_transfer, slow_assignment, slow_loss, wait_per_step, slow_host, slow_update, slow_between
)  # fmt: skip


def verdicts(profile: Profile) -> tuple[Verdict, ...]:
    """The costliest first; at least one, which may say that nothing is wrong."""
    found = [verdict for rule in _RULES if (verdict := rule(profile)) is not None]
    return tuple(sorted(found, key=lambda verdict: -verdict.saved_ms)) or (_nothing(profile),)


def _nothing(profile: Profile) -> Verdict:
    busy = profile.usage.gpu_busy
    ms = profile.phase_ms(FORWARD, BACKWARD)
    evidence = f"the network itself takes {share_of(profile, ms):.0%} of the step"
    if busy is not None:
        evidence = f"the GPU is busy {busy:.0%} of the time"
    if nearest := limits(profile)[:1]:
        evidence += f"; nearest limit: {nearest[0].name}, {nearest[0].reached:.0%} of it used"
    return Verdict(NOTHING, f"nothing is wrong: {evidence}", _still_possible(profile))


def _still_possible(profile: Profile) -> str:
    setup = profile.setup
    if setup.on_gpu and setup.precision == "fp32":
        return "--precision bf16 computes in half the bytes"
    if setup.on_gpu and not setup.compiled and not setup.graph_failed and not setup.compile_failed:
        return "--gear graph compiles too: fewer and larger kernels"
    return "" if setup.on_gpu else "faster only with a GPU, a smaller --img-size or a smaller --cfg"
