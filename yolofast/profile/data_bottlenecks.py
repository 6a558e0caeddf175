"""Bottlenecks before the step: batches that come too late, or take long to copy; what to change, and what it saves.

Workers deliver a batch per (time to make one) / workers, however short the step is: that caps the gain of more of them.
Workers that compute need a core each; those that wait, for a disk or a network, do not.
"""

import math
from typing import NamedTuple

from yolofast.profile.records import DATA, ENOUGH_DATA, SLOW_TRANSFER, TRANSFER, Profile, Slowdown, gain, share_of
from yolofast.profile.step_phases import AUGMENT, DATA_WAIT, TO_DEVICE
from yolofast.words import counted

_WORKERS_BUSY = 0.80
_BURST = 0.25
"""A median below that share of the mean: a few steps wait for all."""
_MOST_WORKERS = 16
_RAM = "--cache ram keeps decoded pixels in memory"


class Remedy(NamedTuple):
    change: str
    saved_ms: float
    """Per step, at best."""


def data_remedy(profile: Profile) -> Remedy:
    setup, wait_ms = profile.setup, profile.phase_ms(DATA_WAIT, AUGMENT)
    if setup.loader == "gpu":
        planned = "a larger --batch-size plans more at once"
        return Remedy(planned if setup.cache == "gpu" else "--cache gpu: pixels on the GPU", wait_ms)
    if setup.on_gpu:
        return Remedy("--loader gpu makes the batches on the GPU", wait_ms)
    return _of_main_process(profile, wait_ms) if setup.loader == "main process" else _of_workers(profile, wait_ms)


def _of_main_process(profile: Profile, wait_ms: float) -> Remedy:
    asleep = sum(phase.asleep_ms for phase in profile.phases if phase.name in (DATA_WAIT, AUGMENT))
    if asleep > wait_ms / 2:
        count = _enough(profile, wait_ms, wait_ms)
        why = "makes them in processes of their own, which wait at the same time: for the disk most likely"
        return Remedy(f"--workers {count} {why}", _saved(profile, wait_ms, wait_ms, count))
    count = _on_cores(profile)
    if count < 1:
        return Remedy(_RAM, wait_ms)
    change = f"--workers {count} makes them in {'a process' if count == 1 else 'processes'} of their own"
    return Remedy(change, _saved(profile, wait_ms, wait_ms, count))


def _of_workers(profile: Profile, wait_ms: float) -> Remedy:
    setup = profile.setup
    decodes = setup.cache in ("off", "jpeg", "jpeg-ram", "jpeg-gpu", "disk")
    waits = [phase for phase in profile.phases if phase.name == DATA_WAIT]
    if any(phase.median_ms < _BURST * phase.mean_ms for phase in waits):
        return Remedy("--persistent-workers: most steps do not wait, those after the workers' start do", wait_ms)
    making_ms = profile.step.mean * max(setup.workers, 1)  # they are what the step waits for: none of them rests
    busy = (profile.usage.worker_cpu or 0.0) / 100 / max(setup.workers, 1)
    if busy < _WORKERS_BUSY:
        return _for_waiting(profile, wait_ms, making_ms, decodes)
    count = _on_cores(profile)
    if setup.workers < count:
        return Remedy(f"--workers {count}: there are {setup.cores} cores", _saved(profile, wait_ms, making_ms, count))
    return Remedy(_RAM if decodes else "--fast-dataloader copies less; more cores would help", wait_ms)


def _for_waiting(profile: Profile, wait_ms: float, making_ms: float, decodes: bool) -> Remedy:
    """Workers that mostly do not compute: a core more would change nothing."""
    if decodes:
        return Remedy(f"{_RAM}: the workers wait themselves, for the disk most likely", wait_ms)
    count = _enough(profile, wait_ms, making_ms)
    if count <= profile.setup.workers:
        return Remedy("find what the workers wait for: they compute little, and more of them would not help", wait_ms)
    why = "the workers wait more than they compute, and more of them wait at the same time"
    return Remedy(f"--workers {count}: {why}", _saved(profile, wait_ms, making_ms, count))


def _on_cores(profile: Profile) -> int:
    """As many as can compute while the training process does."""
    return min(_MOST_WORKERS, profile.setup.cores - 1)


def _enough(profile: Profile, wait_ms: float, making_ms: float) -> int:
    """As many as deliver a batch within the rest of the step."""
    rest_ms = max(profile.step.mean - wait_ms, 1e-3)
    return min(_MOST_WORKERS, max(1, math.ceil(making_ms / rest_ms)))


def _saved(profile: Profile, wait_ms: float, making_ms: float, workers: int) -> float:
    return max(0.0, profile.step.mean - max(profile.step.mean - wait_ms, making_ms / workers))


class Workers(NamedTuple):
    number: int
    """To recommend for `--workers`."""
    why: str


def recommended_workers(profile: Profile) -> Workers | None:
    """So many that a batch is there when the step before it is over; None where the GPU makes them.

    Each needs a core, and the training process one for itself.
    """
    if profile.batch_ms is None:
        return None
    rest_ms = profile.step.mean - profile.phase_ms(DATA_WAIT, AUGMENT)
    enough, most = _enough(profile, profile.step.mean - rest_ms, profile.batch_ms), _on_cores(profile)
    count = min(enough, most)
    cores = counted(profile.setup.cores, "core")
    short = "" if count == enough else f"; {enough} would keep up, but there {'is' if most == 0 else 'are'} {cores}"
    return Workers(
        count,
        f"a process makes a batch in {profile.batch_ms:.1f} ms, without it the step takes {rest_ms:.1f} ms{short}",
    )


def slow_data(profile: Profile) -> Slowdown | None:
    ms = profile.phase_ms(DATA_WAIT, AUGMENT)
    if share_of(profile, ms) < ENOUGH_DATA:
        return None
    waits = "the GPU waits" if profile.setup.on_gpu else "the step waits"
    if profile.setup.loader == "main process":
        waits = "the training process makes its batches itself"
    share, change, saved_ms = share_of(profile, ms), *data_remedy(profile)
    text = f"data: {waits} for {ms:.1f} ms of {profile.step.mean:.1f} ({share:.0%}){_who_makes(profile)}"
    return Slowdown(DATA, text, change, gain(profile, saved_ms), saved_ms)


def _who_makes(profile: Profile) -> str:
    setup, worker_cpu = profile.setup, profile.usage.worker_cpu
    if setup.loader != "workers" or worker_cpu is None:
        return ""
    if setup.workers <= 1:
        return f"; the worker uses {worker_cpu:.0f} % of a core"
    return f"; {setup.workers} workers use {worker_cpu / setup.workers:.0f} % of a core each"


def slow_transfer(profile: Profile) -> Slowdown | None:
    ms = profile.phase_ms(TO_DEVICE)
    if share_of(profile, ms) < SLOW_TRANSFER:
        return None
    text = f"host→device: copying batches takes {ms:.1f} ms of {profile.step.mean:.1f} ({share_of(profile, ms):.0%})"
    work, ceilings = profile.work, profile.ceilings
    if work is not None and ceilings is not None and ceilings.sent_bytes and work.sent_bytes:
        rate = work.sent_bytes / ms * 1e3
        text += f", at {rate / 1e9:.1f} of the {ceilings.sent_bytes / 1e9:.1f} GB/s that pinned memory reaches"
    return Slowdown(TRANSFER, text, "--loader gpu: only plans travel then", gain(profile, ms), ms)
