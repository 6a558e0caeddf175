"""A profile as rows of text for the terminal, and as plain values for `--json` and a run's folder (unknown: null)."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from yolofast.files.known_numbers import without_nan
from yolofast.profile.bottlenecks import ARITHMETIC, limits, verdicts
from yolofast.profile.data_bottlenecks import recommended_workers
from yolofast.profile.records import PhaseFigures, Profile, Setup, Slowdown, TimeSpread
from yolofast.profile.step_phases import EMA, GRAPH, OPTIMIZER, TO_DEVICE
from yolofast.profile.step_statistics import ProfileComparison, in_words
from yolofast.words import counted

_MOST_PLACES = 5


def title(setup: Setup) -> str:
    size = setup.sizes or f"{setup.height}×{setup.width}"
    data = {"gpu": "batches made on the GPU", "main process": "batches made by the training process"}
    loader = data.get(setup.loader, f"batches made by {counted(setup.workers, 'worker')}")
    joined = f" as {setup.batch // setup.joined} joined of {setup.joined} each" if setup.joined > 1 else ""
    return (
        f"{setup.network}, {size}, batch {setup.batch}{joined}, {setup.assigner or 'own loss'}, {setup.precision}, "
        f"gear {setup.gear}, {loader}, {setup.device}; epoch {setup.epoch + 1} of {setup.epochs}"
    )


def phase_rows(profile: Profile) -> Iterator[tuple[str, str, str, str]]:
    """Name, mean ± std, share, remark."""
    for phase in profile.phases:
        yield _row(phase, phase.name, phase.beside and f"parallel to the step, {phase.beside}")
        if profile.split and phase.name == profile.split_of:
            for part in profile.split:
                yield _row(part, f"  {part.name}", f"share of {profile.split_of}, by the twin")
    if not {OPTIMIZER, GRAPH} & {phase.name for phase in (*profile.phases, *profile.split)}:
        yield f"{OPTIMIZER}, {EMA}", "–", "", "no weights moved in these steps: give more --steps"
    step = profile.step
    rate = f"{profile.images_per_second:,.0f} images/s"
    yield "step", _ms(step.mean, step.std), "", f"{rate}, wall clock over {counted(profile.steps, 'step')}"


def _row(phase: PhaseFigures, name: str, remark: str) -> tuple[str, str, str, str]:
    share = "" if phase.beside else f"{phase.share:.1%}"
    return name, _ms(phase.mean_ms, phase.std_ms), share, remark


def _ms(mean: float, std: float) -> str:
    """A single measurement has no spread."""
    return f"{mean:.2f} ± {std:.2f}" if std else f"{mean:.2f}"


def usage_rows(profile: Profile) -> Iterator[tuple[str, str]]:
    usage, setup = profile.usage, profile.setup
    if usage.gpu_busy is not None:
        yield "GPU busy", f"{usage.gpu_busy:.1%} of the time ({usage.gpu_busy_by})"
    elif setup.on_gpu:
        yield "GPU busy", f"not known: {usage.gpu_busy_by}"
    yield "main process", f"{usage.main_cpu:.0f} % of a core"
    if usage.worker_cpu is not None:
        count = setup.workers
        each = f" together, {usage.worker_cpu / count:.0f} % each of {count}" if count > 1 else ""
        yield "workers", f"{usage.worker_cpu:.0f} % of a core{each}"
    if (workers := recommended_workers(profile)) is not None:
        yield "--workers", f"{workers.number} recommended: {workers.why}"
    if usage.gpu_memory_gib is not None:
        total = f" of {usage.gpu_memory_total_gib:.0f}" if usage.gpu_memory_total_gib else ""
        yield "GPU memory", f"{usage.gpu_memory_gib:.2f}{total} GiB"
    if (ms := profile.phase_ms(TO_DEVICE)) and profile.work is not None and profile.work.sent_bytes:
        yield TO_DEVICE, f"{profile.work.sent_bytes / ms / 1e6:.3g} GB/s while a batch is copied"
    if profile.waits is not None:
        shown = "; ".join(f"{one.place} in {one.phase}" for one in profile.waits.places[:_MOST_PLACES])
        yield "waits for the GPU", f"{profile.waits.count:g} per step{': ' * bool(shown)}{shown}"
    nearest = " – the nearest limit"
    for limit in limits(profile):
        unit, size = ("TFLOP/s", 1e12) if limit.name == ARITHMETIC else ("GB/s", 1e9)
        rates = f"{limit.achieved / size:.3g} of {limit.ceiling / size:.3g} {unit}"
        yield limit.name, f"{rates}, floor {limit.floor_ms:.2f} ms: {limit.reached:.0%} of the limit{nearest}"
        nearest = ""


def verdict_lines(verdict: Slowdown) -> Iterator[str]:
    yield verdict.text
    if verdict.change:
        yield f"  change: {verdict.change}"
    if verdict.gain:
        yield f"  gain: {verdict.gain}"


def profile_json(profile: Profile) -> dict[str, Any]:
    values = {name: value for name, value in asdict(profile).items() if name != "step"}
    values |= {
        **summary(profile.phases, profile.step, profile.setup.gear, profile.usage.gpu_busy, profile.images_per_second),
        "limits": [asdict(limit) for limit in limits(profile)],
        "waits": None if profile.waits is None else {"count": profile.waits.count, **asdict(profile.waits)},
        "verdicts": [asdict(verdict) for verdict in verdicts(profile)],
        "recommended_workers": None if (workers := recommended_workers(profile)) is None else workers.number,
        "compile_report": profile.compile_report or None,
    }
    return without_nan(values)


def summary(
    phases: tuple[PhaseFigures, ...],
    step: TimeSpread,
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


def comparison_json(found: ProfileComparison) -> dict[str, Any]:
    values = {**asdict(found), "is_real": found.is_real, "relative": found.relative, "text": in_words(found)}
    return without_nan(values)
