"""For how long a GPU does nothing in a step, and which phase or wait explains it.

A phase has one verdict: a wait inside the loss is told with the loss.
"""

from collections.abc import Iterator

from yolofast.profile.phases import ASSIGN, AUGMENT, DATA_WAIT, LOSS, REST, TO_DEVICE
from yolofast.profile.records import Profile, Waits
from yolofast.profile.verdict import ENOUGH_DATA, LONG_BETWEEN, SLOW_LOSS, SLOW_TRANSFER, share_of

_OF_DATA = (DATA_WAIT, AUGMENT)
_WAITS = 0.5
"""A step, from which on waiting is what the host does; one among many steps is not why the GPU idles in all."""
_MOST_PLACES = 3


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
    return "" if profile.waits is None else _in_words(profile.waits.outside(tuple(_named_phases(profile))))


def phase_that_prevents_a_graph(profile: Profile) -> str:
    """The loss or its assignment, if the host waits there and nowhere else, and a graph could not be had."""
    if not profile.setup.graph_failed or profile.waits is None:
        return ""
    waiting = (
        name
        for name in losses_with_verdict(profile)
        if waits_within(profile, name) and not _in_words(profile.waits.outside((name,)))
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
