"""Bottlenecks before the step: batches that come too late, or take long to copy."""

from yolofast.profile.data_remedies import data_remedy
from yolofast.profile.phases import AUGMENT, DATA_WAIT, TO_DEVICE
from yolofast.profile.records import Profile
from yolofast.profile.verdict import DATA, ENOUGH_DATA, SLOW_TRANSFER, TRANSFER, Verdict, gain, share_of


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
    change, saved_ms = data_remedy(profile)
    return Verdict(DATA, text, change, gain(profile, saved_ms), saved_ms)


def _who_makes(profile: Profile) -> str:
    setup, worker_cpu = profile.setup, profile.usage.worker_cpu
    if setup.loader != "workers" or worker_cpu is None:
        return ""
    if setup.workers <= 1:
        return f"; the worker uses {worker_cpu:.0f} % of a core"
    return f"; {setup.workers} workers use {worker_cpu / setup.workers:.0f} % of a core each"


def slow_transfer(profile: Profile) -> Verdict | None:
    ms = profile.phase_ms(TO_DEVICE)
    if share_of(profile, ms) < SLOW_TRANSFER:
        return None
    text = f"host→device: copying batches takes {ms:.1f} ms of {profile.step.mean:.1f} ({share_of(profile, ms):.0%})"
    work, ceilings = profile.work, profile.ceilings
    if work is not None and ceilings is not None and ceilings.sent_bytes and work.sent_bytes:
        rate = work.sent_bytes / ms * 1e3
        text += f", at {rate / 1e9:.1f} of the {ceilings.sent_bytes / 1e9:.1f} GB/s that pinned memory reaches"
    return Verdict(TRANSFER, text, "--loader gpu: only plans travel then", gain(profile, ms), ms)
