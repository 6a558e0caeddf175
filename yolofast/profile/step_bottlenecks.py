"""Bottlenecks in the step: its loss, a host that is slow or waits, the update, and the time between phases.

A phase has one verdict: a wait inside the loss is reported with the loss. Idle time of the GPU is what is left.
"""

from collections.abc import Iterator

from yolofast.extensions import ASSIGNERS
from yolofast.profile.records import (
    ASSIGNMENT,
    BETWEEN,
    ENOUGH_DATA,
    HOST,
    LONG_BETWEEN,
    LOSSES,
    SLOW_LOSS,
    SLOW_TRANSFER,
    UPDATE,
    WAIT,
    Profile,
    Slowdown,
    Waits,
    gain,
    share_of,
)
from yolofast.profile.step_phases import ASSIGN, AUGMENT, DATA_WAIT, EMA, LOSS, OPTIMIZER, REST, TO_DEVICE

_OF_DATA = (DATA_WAIT, AUGMENT)
_WAITS = 0.5
"""A step, from which on waiting is what the host does; one among many steps is not why the GPU idles in all."""
_MOST_PLACES = 3
_DO_NOT_WAIT = (
    "do not read values of the device in a step (`.item()`, `nonzero`): one that waits cannot be captured as a graph"
)
_ASLEEP_SHARE = 0.10
_UPDATE_SHARE = 0.25
_BUSY_ENOUGH = 0.85
_IDLE_SHARE = 1 - _BUSY_ENOUGH
_HOST_IS_BUSY = 80
"""Percent of a core; one that uses less is not what a replayed graph waits for."""


def with_twin(profile: Profile, name: str) -> float:
    """Milliseconds of a phase, measured itself or its part of a region into which only the twin looks."""
    own = profile.phase_ms(name)
    part = next((phase for phase in profile.split if phase.name == name), None)
    return own + (part.share * profile.phase_ms(profile.split_of) if part is not None and not own else 0.0)


def losses_with_verdict(profile: Profile) -> tuple[str, ...]:
    """Assignment and the rest of the loss, if they have a verdict of their own."""
    return tuple(name for name in (ASSIGN, LOSS) if share_of(profile, with_twin(profile, name)) >= SLOW_LOSS)


def long_between_ms(profile: Profile) -> float:
    """What goes by between the phases, if that has a verdict of its own: where the host waits, the wait has one."""
    awake = sum(phase.mean_ms - phase.asleep_ms for phase in profile.phases if phase.name == REST)
    return 0.0 if share_of(profile, awake) < LONG_BETWEEN or waits_within(profile, REST) else awake


def unnamed_idle_ms(profile: Profile) -> float:
    """For how long the GPU does nothing, less the wait for data and the phases in which another verdict says why."""
    named = sum(with_twin(profile, name) for name in {*_OF_DATA, *_named_phases(profile)})
    idle = (1 - (profile.usage.gpu_busy or 0.0)) * profile.step.mean
    return max(idle - named, 0.0)


def waits_within(profile: Profile, *phases: str) -> str:
    """In words; empty if they do not matter."""
    return "" if profile.waits is None else _in_words(profile.waits.within(phases))


def waits_elsewhere(profile: Profile) -> str:
    """Those outside of phases with a verdict of their own, in words; empty if they do not matter."""
    return "" if profile.waits is None else _in_words(profile.waits.within(tuple(_named_phases(profile)), outside=True))


def phase_that_prevents_a_graph(profile: Profile) -> str:
    """The loss or its assignment, if the host waits there and nowhere else, and a graph could not be had."""
    if not profile.setup.graph_failed or profile.waits is None:
        return ""
    waiting = (
        name
        for name in losses_with_verdict(profile)
        if waits_within(profile, name) and not _in_words(profile.waits.within((name,), outside=True))
    )
    return next(waiting, "")


def _named_phases(profile: Profile) -> Iterator[str]:
    """Those that have a verdict of their own."""
    if share_of(profile, profile.phase_ms(*_OF_DATA)) >= ENOUGH_DATA:
        yield from _OF_DATA
    if share_of(profile, profile.phase_ms(TO_DEVICE)) >= SLOW_TRANSFER:
        yield TO_DEVICE
    yield from losses_with_verdict(profile)
    if long_between_ms(profile):
        yield REST


def _in_words(waits: Waits) -> str:
    if waits.count < _WAITS:
        return ""
    places = list(dict.fromkeys(one.place for one in waits.places))[:_MOST_PLACES]
    times = "once" if waits.count == 1 else f"{waits.count:g} times"
    return f"the host waits for it {times} a step ({'; '.join(places)})"


def slow_assignment(profile: Profile) -> Slowdown | None:
    name = profile.setup.assigner
    other = ASSIGNERS[name].cheaper if name in ASSIGNERS else ""
    later = "--ota-from-epoch assigns by anchors until then; " if name == "ota" else ""
    cheaper = f"{later}--assigner {other} is cheaper (other results)" if other else "see --trace FILE for its parts"
    return _slow_phase(profile, ASSIGN, ASSIGNMENT, "label assignment", cheaper)


def slow_loss(profile: Profile) -> Slowdown | None:
    return _slow_phase(profile, LOSS, LOSSES, "the loss", "see --trace FILE for its parts")


def _slow_phase(profile: Profile, phase: str, kind: str, name: str, cheaper: str) -> Slowdown | None:
    if phase not in losses_with_verdict(profile):
        return None
    ms = with_twin(profile, phase)
    text = f"{name} takes {share_of(profile, ms):.0%} of the step ({ms:.1f} ms){_host_clause(profile, phase)}"
    change = _DO_NOT_WAIT if waits_within(profile, phase) else _faster_gear(profile) or cheaper
    saved = ms + (unnamed_idle_ms(profile) if phase == phase_that_prevents_a_graph(profile) else 0.0)
    return Slowdown(kind, text, change, gain(profile, saved), saved)


def _host_clause(profile: Profile, phase: str) -> str:
    """Whether the device is idle in it."""
    asleep = sum(one.asleep_ms for one in profile.phases if one.name == phase)
    if asleep >= _ASLEEP_SHARE * profile.step.mean:
        return f", and for {asleep:.1f} ms of that the processor does nothing"
    busy = profile.usage.gpu_busy
    if busy is None or busy >= _BUSY_ENOUGH:
        return ""
    waits = waits_within(profile, phase)
    return f" and the GPU waits for the host: it is busy {busy:.0%} of the time{', ' * bool(waits)}{waits}"


def wait_per_step(profile: Profile) -> Slowdown | None:
    """Of the host for the device, or for something else, where no other rule has named the phase."""
    if profile.setup.on_gpu:
        waits, busy, ms = waits_elsewhere(profile), profile.usage.gpu_busy, unnamed_idle_ms(profile)
        if waits and busy is None:
            return Slowdown(WAIT, f"a wait per step: {waits}; how busy the GPU is, is unknown", _DO_NOT_WAIT)
        if not waits or busy is None or share_of(profile, ms) < _IDLE_SHARE:
            return None
        text = f"a wait per step: the GPU is busy {busy:.0%} of the time, {waits}"
        return Slowdown(WAIT, text, _DO_NOT_WAIT, gain(profile, ms), ms)
    named = losses_with_verdict(profile)
    by_twin = [profile.split_of] if any(part.name in named for part in profile.split) else []
    explained = (*_OF_DATA, TO_DEVICE, *named, *by_twin)
    asleep = [phase for phase in profile.phases if phase.name not in explained]
    ms = sum(phase.asleep_ms for phase in asleep)
    if share_of(profile, ms) < _ASLEEP_SHARE:
        return None
    worst = max(asleep, key=lambda phase: phase.asleep_ms)
    text = (
        f"a wait per step: the process sleeps for {ms:.1f} ms of {profile.step.mean:.1f} "
        f"({share_of(profile, ms):.0%}), most of it in “{worst.name}”"
    )
    return Slowdown(WAIT, text, "--trace FILE shows what it waits for", gain(profile, ms), ms)


def slow_host(profile: Profile) -> Slowdown | None:
    """The GPU idles although data is there and nobody waits: launching takes longer than computing, or in a graph the
    gaps between kernels count."""
    if waits_elsewhere(profile) or phase_that_prevents_a_graph(profile):
        return None
    busy, setup, ms = profile.usage.gpu_busy, profile.setup, unnamed_idle_ms(profile)
    if busy is None or share_of(profile, ms) < _IDLE_SHARE:
        return None
    why = setup.graph_failed or setup.compile_failed
    more_work = f"--batch-size {2 * setup.batch}: more work for the same launches"
    more_work += f" (a faster gear failed: {why})" if why else ""
    return Slowdown(HOST, _why_idle(profile, busy), _faster_gear(profile) or more_work, gain(profile, ms), ms)


def _why_idle(profile: Profile, busy: float) -> str:
    core = f"{profile.usage.main_cpu:.0f} % of a core"
    if profile.setup.captured and profile.usage.main_cpu < _HOST_IS_BUSY:
        return (
            f"short kernels: the GPU is busy {busy:.0%} of the time, although the step is launched as a whole and the "
            f"training process uses only {core}. The rest are most likely the gaps between kernels"
        )
    return (
        f"the GPU waits for the host: it is busy {busy:.0%} of the time, while the training process uses {core} "
        "to launch its work"
    )


def slow_update(profile: Profile) -> Slowdown | None:
    ms = profile.phase_ms(OPTIMIZER, EMA) - sum(p.asleep_ms for p in profile.phases if p.name in (OPTIMIZER, EMA))
    waits_there = waits_within(profile, OPTIMIZER, EMA) and wait_per_step(profile) is not None
    if share_of(profile, ms) < _UPDATE_SHARE or waits_there:
        return None
    text = f"moving weights and their average takes {share_of(profile, ms):.0%} of the step ({ms:.1f} ms)"
    change = f"--batch-size {2 * profile.setup.batch}: half as many updates for the same images"
    return Slowdown(UPDATE, text, change, gain(profile, ms / 2), ms / 2)


def slow_between(profile: Profile) -> Slowdown | None:
    if not (ms := long_between_ms(profile)):
        return None
    text = f"between the phases {ms:.1f} ms of {profile.step.mean:.1f} go by ({share_of(profile, ms):.0%})"
    return Slowdown(BETWEEN, text, "--trace FILE shows what happens there", gain(profile, ms), ms)


def _faster_gear(profile: Profile) -> str:
    """For time that goes into many small operations."""
    setup = profile.setup
    if setup.compiled or not setup.on_gpu:
        return ""
    if not setup.captured:
        return "" if setup.graph_failed else "--gear graph launches the whole step at once"
    return "" if setup.compile_failed else "--gear graph in a run long enough to compile"
