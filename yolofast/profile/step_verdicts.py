"""Bottlenecks in the step: its loss, a host that is too slow or waits, the update, and what lies between.

A phase has one verdict: a wait inside the loss is told with the loss.
"""

from yolofast.profile.phases import ASSIGN, AUGMENT, DATA_WAIT, EMA, LOSS, OPTIMIZER, REST, TO_DEVICE
from yolofast.profile.records import Profile
from yolofast.profile.verdict import (
    ASSIGNMENT,
    BETWEEN,
    HOST,
    LOSSES,
    UPDATE,
    WAIT,
    Verdict,
    gain,
    share_of,
)

_ASLEEP_SHARE = 0.10
_LOSS_SHARE = 0.30
_UPDATE_SHARE = _REST_SHARE = 0.25
_BUSY_ENOUGH = 0.85
_IDLE_SHARE = 1 - _BUSY_ENOUGH
_WAITS = 0.5
"""A step, from which on waiting is what the host does; one among many steps is not why the GPU idles in all."""
_HOST_IS_BUSY = 80
"""Percent of a core; one that uses less is not what a replayed graph waits for."""


def slow_assignment(profile: Profile) -> Verdict | None:
    ms = _with_twin(profile, ASSIGN)
    if share_of(profile, ms) < _LOSS_SHARE:
        return None
    text = (
        f"label assignment takes {share_of(profile, ms):.0%} of the step ({ms:.1f} ms){_host_clause(profile, ASSIGN)}"
    )
    other = {"ota": "anchor", "simota": "tal"}.get(profile.setup.assigner, "")
    later = "--ota-from-epoch assigns by anchors until then; " if profile.setup.assigner == "ota" else ""
    cheaper = f"{later}--assigner {other} is cheaper (other results)" if other else "see --trace FILE for its parts"
    return Verdict(ASSIGNMENT, text, _faster_gear(profile) or cheaper, gain(profile, ms), ms)


def slow_loss(profile: Profile) -> Verdict | None:
    ms = _with_twin(profile, LOSS)
    if share_of(profile, ms) < _LOSS_SHARE:
        return None
    text = f"the loss takes {share_of(profile, ms):.0%} of the step ({ms:.1f} ms){_host_clause(profile, LOSS)}"
    return Verdict(LOSSES, text, _faster_gear(profile) or "see --trace FILE for its parts", gain(profile, ms), ms)


def _host_clause(profile: Profile, phase: str) -> str:
    """Whether the device is idle in it."""
    asleep = sum(one.asleep_ms for one in profile.phases if one.name == phase)
    if asleep >= _ASLEEP_SHARE * profile.step.mean:
        return f", and for {asleep:.1f} ms of that the processor does nothing"
    busy = profile.usage.gpu_busy
    if busy is None or busy >= _BUSY_ENOUGH:
        return ""
    return f" and the GPU waits for the host: it is busy {busy:.0%} of the time{_waits(profile)}"


def _waits(profile: Profile) -> str:
    waits = profile.waits
    if waits is None or waits.count < _WAITS:
        return ""
    return f", the host waits for it {waits.count:g} times a step ({'; '.join(waits.places[:3])})"


def wait_per_step(profile: Profile) -> Verdict | None:
    """Of the host for the device, or for something else, where no other rule has named the phase."""
    waits, busy = profile.waits, profile.usage.gpu_busy
    if profile.setup.on_gpu:
        ms = _unnamed_idle_ms(profile)
        if waits is None or waits.count < _WAITS or busy is None or share_of(profile, ms) < _IDLE_SHARE:
            return None
        text = f"a wait per step: the GPU is busy {busy:.0%} of the time{_waits(profile)}"
        return Verdict(
            WAIT, text, "do not read values of the device in a step (`.item()`, `nonzero`)", gain(profile, ms), ms
        )
    asleep = [phase for phase in profile.phases if phase.name not in (*_OF_DATA, *_named_phases(profile))]
    ms = sum(phase.asleep_ms for phase in asleep)
    if share_of(profile, ms) < _ASLEEP_SHARE:
        return None
    worst = max(asleep, key=lambda phase: phase.asleep_ms)
    text = (
        f"a wait per step: the process sleeps for {ms:.1f} ms of {profile.step.mean:.1f} "
        f"({share_of(profile, ms):.0%}), most of it in “{worst.name}”"
    )
    return Verdict(WAIT, text, "--trace FILE shows what it waits for", gain(profile, ms), ms)


_OF_DATA = (DATA_WAIT, AUGMENT, TO_DEVICE)


def _named_phases(profile: Profile) -> tuple[str, ...]:
    """Those that have a verdict of their own."""
    return tuple(name for name in (ASSIGN, LOSS) if share_of(profile, _with_twin(profile, name)) >= _LOSS_SHARE)


def slow_host(profile: Profile) -> Verdict | None:
    """The GPU idles although data is there and nobody waits: launching takes longer than computing, or in a graph the
    gaps between kernels count."""
    busy, waits = profile.usage.gpu_busy, profile.waits
    between = slow_between(profile)  # launching faster does not shorten it
    ms = max(_unnamed_idle_ms(profile) - (between.saved_ms if between is not None else 0.0), 0.0)
    if busy is None or share_of(profile, ms) < _IDLE_SHARE or (waits is not None and waits.count >= _WAITS):
        return None
    change = _faster_gear(profile) or f"--batch-size {2 * profile.setup.batch}: more work for the same launches"
    return Verdict(HOST, _why_idle(profile, busy), change, gain(profile, ms), ms)


def _why_idle(profile: Profile, busy: float) -> str:
    core = f"{profile.usage.main_cpu:.0f} % of a core"
    if profile.setup.captured and profile.usage.main_cpu < _HOST_IS_BUSY:
        return (
            f"short kernels: the GPU is busy {busy:.0%} of the time, although the step is launched as a whole and the "
            f"training process uses only {core}; the rest are most likely the gaps between kernels"
        )
    return (
        f"the GPU waits for the host: it is busy {busy:.0%} of the time, while the training process uses {core} "
        "to launch its work"
    )


def slow_update(profile: Profile) -> Verdict | None:
    ms = profile.phase_ms(OPTIMIZER, EMA) - sum(p.asleep_ms for p in profile.phases if p.name in (OPTIMIZER, EMA))
    if share_of(profile, ms) < _UPDATE_SHARE:
        return None
    text = f"moving weights and their average takes {share_of(profile, ms):.0%} of the step ({ms:.1f} ms)"
    change = f"--batch-size {2 * profile.setup.batch}: half as many updates for the same images"
    return Verdict(UPDATE, text, change, gain(profile, ms / 2), ms / 2)


def slow_between(profile: Profile) -> Verdict | None:
    rest = next((phase for phase in profile.phases if phase.name == REST), None)
    ms = 0.0 if rest is None else rest.mean_ms - rest.asleep_ms
    if share_of(profile, ms) < _REST_SHARE:
        return None
    text = f"between the phases {ms:.1f} ms of {profile.step.mean:.1f} go by ({share_of(profile, ms):.0%})"
    return Verdict(BETWEEN, text, "--trace FILE shows what happens there", gain(profile, ms), ms)


def _faster_gear(profile: Profile) -> str:
    """For time that goes into many small operations."""
    setup = profile.setup
    if setup.on_gpu and not setup.captured:
        return "--gear graph launches the whole step at once"
    return "" if setup.compiled or not setup.on_gpu else "--gear graph in a run long enough to compile"


def _with_twin(profile: Profile, name: str) -> float:
    """A phase measured itself, or its part of a region into which only the twin looks."""
    own = profile.phase_ms(name)
    part = next((phase for phase in profile.split if phase.name == name), None)
    return own + (part.share * _region_ms(profile) if part is not None and not own else 0.0)


def _region_ms(profile: Profile) -> float:
    return profile.phase_ms(profile.split_of)


def _unnamed_idle_ms(profile: Profile) -> float:
    """For how long the GPU does nothing, less the wait for data and the phases in which another verdict says why."""
    named = sum(_with_twin(profile, name) for name in _named_phases(profile))
    idle = (1 - (profile.usage.gpu_busy or 0.0)) * profile.step.mean
    return max(idle - profile.phase_ms(DATA_WAIT, AUGMENT) - named, 0.0)
