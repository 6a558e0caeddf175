"""For how long a GPU does nothing in a step, and which phase or wait explains it.

A phase has one verdict: a wait inside the loss is told with the loss.
"""

from yolofast.profile.phases import ASSIGN, AUGMENT, DATA_WAIT, LOSS
from yolofast.profile.records import Profile, Waits
from yolofast.profile.verdict import share_of

SLOW_LOSS = 0.30
"""The share of the step from which on assignment, or the rest of the loss, has a verdict of its own."""
_WAITS = 0.5
"""A step, from which on waiting is what the host does; one among many steps is not why the GPU idles in all."""
_MOST_PLACES = 3


def with_twin(profile: Profile, name: str) -> float:
    """Milliseconds of a phase, measured itself or its part of a region into which only the twin looks."""
    own = profile.phase_ms(name)
    part = next((phase for phase in profile.split if phase.name == name), None)
    return own + (part.share * profile.phase_ms(profile.split_of) if part is not None and not own else 0.0)


def named_phases(profile: Profile) -> tuple[str, ...]:
    """Those that have a verdict of their own."""
    return tuple(name for name in (ASSIGN, LOSS) if share_of(profile, with_twin(profile, name)) >= SLOW_LOSS)


def unnamed_idle_ms(profile: Profile) -> float:
    """For how long the GPU does nothing, less the wait for data and the phases in which another verdict says why."""
    named = sum(with_twin(profile, name) for name in named_phases(profile))
    idle = (1 - (profile.usage.gpu_busy or 0.0)) * profile.step.mean
    return max(idle - profile.phase_ms(DATA_WAIT, AUGMENT) - named, 0.0)


def waits_within(profile: Profile, phase: str) -> str:
    """In words; empty if they do not matter."""
    return "" if profile.waits is None else _in_words(profile.waits.within((phase,)))


def waits_elsewhere(profile: Profile) -> str:
    """Those outside of phases with a verdict of their own, in words; empty if they do not matter."""
    return "" if profile.waits is None else _in_words(profile.waits.outside(named_phases(profile)))


def phase_that_prevents_a_graph(profile: Profile) -> str:
    """The one with a verdict of its own, if the host waits there and nowhere else, and a graph could not be had."""
    if profile.setup.captured or not profile.setup.higher_gear_failed or waits_elsewhere(profile):
        return ""
    return next((name for name in named_phases(profile) if waits_within(profile, name)), "")


def _in_words(waits: Waits) -> str:
    if waits.count < _WAITS:
        return ""
    places = "; ".join(one.place for one in waits.places[:_MOST_PLACES])
    return f"the host waits for it {waits.count:g} times a step ({places})"
