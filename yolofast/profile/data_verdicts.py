"""Bottlenecks before the step: batches that come too late, or take long to copy."""

from yolofast.profile.phases import AUGMENT, DATA_WAIT, TO_DEVICE
from yolofast.profile.records import Profile
from yolofast.profile.verdict import DATA, ENOUGH_DATA, TRANSFER, Verdict, gain, share_of

_TRANSFER_SHARE = 0.10
_WORKERS_BUSY = 0.80
_BURST = 0.25
"""A median below that share of the mean: a few steps wait for all."""
_MOST_WORKERS = 16
_RAM = "--cache ram keeps decoded pixels in memory"


def slow_data(profile: Profile) -> Verdict | None:
    ms = profile.phase_ms(DATA_WAIT, AUGMENT)
    if share_of(profile, ms) < ENOUGH_DATA:
        return None
    waits = "the GPU waits" if profile.setup.on_gpu else "the step waits"
    if profile.setup.loader == "main process":
        waits = "the training process makes its batches itself"
    text = (
        f"data: {waits} for {ms:.1f} ms of {profile.step.mean:.1f} ({share_of(profile, ms):.0%}){_who_makes(profile)}"
    )
    return Verdict(DATA, text, _data_change(profile), gain(profile, ms), ms)


def _who_makes(profile: Profile) -> str:
    setup, worker_cpu = profile.setup, profile.usage.worker_cpu
    if setup.loader != "workers" or worker_cpu is None:
        return ""
    each = worker_cpu / max(setup.workers, 1)
    return f"; {setup.workers} workers use {each:.0f} % of a core each"


def _data_change(profile: Profile) -> str:
    setup, more = profile.setup, min(_MOST_WORKERS, profile.setup.cores - 1)
    decodes = setup.cache in ("off", "jpeg", "disk")
    if setup.loader == "gpu":
        return "a larger --batch-size plans more at once" if setup.cache == "gpu" else "--cache gpu: pixels on the GPU"
    if setup.on_gpu:
        return "--loader gpu makes the batches on the GPU"
    if setup.loader == "main process":
        return f"--workers {more} makes them in processes of their own" if more > 0 else _RAM
    if _comes_in_bursts(profile):
        return "--persistent-workers: most steps do not wait, those after the workers' start do"
    busy = (profile.usage.worker_cpu or 0.0) / 100 / max(setup.workers, 1)
    if decodes and busy < _WORKERS_BUSY:
        return f"{_RAM}: the workers wait themselves, for the disk most likely"
    if setup.workers < more:
        return f"--workers {more}: there are {setup.cores} cores"
    return _RAM if decodes else "--fast-dataloader copies less; more cores would help"


def _comes_in_bursts(profile: Profile) -> bool:
    waits = [phase for phase in profile.phases if phase.name == DATA_WAIT]
    return any(phase.median_ms < _BURST * phase.mean_ms for phase in waits)


def slow_transfer(profile: Profile) -> Verdict | None:
    ms = profile.phase_ms(TO_DEVICE)
    if share_of(profile, ms) < _TRANSFER_SHARE:
        return None
    text = f"host→device: copying batches takes {ms:.1f} ms of {profile.step.mean:.1f} ({share_of(profile, ms):.0%})"
    work, ceilings = profile.work, profile.ceilings
    if work is not None and ceilings is not None and ceilings.sent_bytes and work.sent_bytes:
        rate = work.sent_bytes / ms * 1e3
        text += f", at {rate / 1e9:.1f} of the {ceilings.sent_bytes / 1e9:.1f} GB/s that pinned memory reaches"
    return Verdict(TRANSFER, text, "--loader gpu: only plans travel then", gain(profile, ms), ms)
