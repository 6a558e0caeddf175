"""What holds a run up: the bottleneck and its evidence, the flag to change and the gain to expect."""

from dataclasses import dataclass

from yolofast.profile.records import Profile

DATA, TRANSFER, ASSIGNMENT, LOSSES = "data", "host→device", "assignment", "loss"
HOST, WAIT, UPDATE, BETWEEN, NOTHING = "host", "wait per step", "update", "between steps", "nothing"


ENOUGH_DATA = SLOW_TRANSFER = 0.10
SLOW_LOSS = 0.30
LONG_BETWEEN = 0.25
"""Shares of the step from which on data, copying, the loss or its assignment, what lies between phases are bottlenecks:
round numbers, below which a change would hardly be felt."""


@dataclass(frozen=True)
class Verdict:
    kind: str
    text: str
    """Bottleneck and evidence."""
    change: str = ""
    """The flag, and why."""
    gain: str = ""
    saved_ms: float = 0.0
    """Per step, at best."""


def share_of(profile: Profile, ms: float) -> float:
    return ms / profile.step.mean if profile.step.mean else 0.0


def gain(profile: Profile, saved_ms: float) -> str:
    before = profile.step.mean
    after = max(before - saved_ms, 1e-3)
    return f"at best {before:.1f} → {after:.1f} ms per step, {before / after:.2f}× as fast"
