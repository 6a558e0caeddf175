"""How near a step is to what the device can do, and which of its limits that is.

A floor is the time the step would take if nothing but that one thing were in the way, at the speed measured in the
same run. The largest floor is the limit.
"""

from dataclasses import dataclass

from yolofast.profile.records import Profile

ARITHMETIC, MEMORY, BUS = "arithmetic", "memory", "bus to the device"


@dataclass(frozen=True, kw_only=True)
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
    found = [_limit(name, amount, ceiling, profile.step.mean) for name, amount, ceiling in pairs]
    return tuple(sorted(found, key=lambda limit: -limit.floor_ms))


def _limit(name: str, amount: float, ceiling: float, step_ms: float) -> Limit:
    floor_ms = amount / ceiling * 1e3
    return Limit(
        name=name,
        floor_ms=floor_ms,
        reached=floor_ms / step_ms,
        achieved=amount / step_ms * 1e3,
        ceiling=ceiling,
    )
