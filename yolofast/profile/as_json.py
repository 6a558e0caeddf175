"""A profile as plain values, for `--json` and for a run's folder. What is not known is null."""

from dataclasses import asdict
from typing import Any

from yolofast.known_numbers import without_nan
from yolofast.profile.comparison import Comparison, in_words
from yolofast.profile.limits import limits
from yolofast.profile.records import PhaseFigures, Profile, Spread
from yolofast.profile.verdicts import verdicts


def profile_json(profile: Profile) -> dict[str, Any]:
    setup = asdict(profile.setup)
    values = {
        **summary(profile.phases, profile.step, profile.setup.gear, profile.usage.gpu_busy, profile.images_per_second),
        "steps": profile.steps,
        "measured_by": profile.measured_by,
        "split": [asdict(phase) for phase in profile.split],
        "split_of": profile.split_of,
        "split_by": profile.split_by,
        "setup": setup,
        "usage": asdict(profile.usage),
        "work": None if profile.work is None else asdict(profile.work),
        "ceilings": None if profile.ceilings is None else asdict(profile.ceilings),
        "limits": [asdict(limit) for limit in limits(profile)],
        "waits": None if profile.waits is None else {"count": profile.waits.count, **asdict(profile.waits)},
        "verdicts": [asdict(verdict) for verdict in verdicts(profile)],
        "compile_report": profile.compile_report or None,
    }
    return without_nan(values)


def summary(
    phases: tuple[PhaseFigures, ...],
    step: Spread,
    gear: str,
    gpu_busy: float | None,
    images_per_second: float | None,
) -> dict[str, Any]:
    """What `profile.json` of a run's folder says too."""
    return {
        "phases": [asdict(phase) for phase in phases],
        "gear": gear,
        "gpu_busy": gpu_busy,
        "images_per_second": images_per_second,
        "step_ms": {"mean": step.mean, "std": step.std},
    }


def comparison_json(found: Comparison) -> dict[str, Any]:
    values = {**asdict(found), "is_real": found.is_real, "relative": found.relative, "text": in_words(found)}
    return without_nan(values)
