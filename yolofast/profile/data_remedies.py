"""What to change if batches come too late, and what that saves.

Workers in parallel deliver a batch per (time to make one) / workers, however short the step is: that caps the gain of
more of them. Those that compute need a core each; those that wait – for a disk, a network – do not.
"""

import math
from typing import NamedTuple

from yolofast.profile.phases import AUGMENT, DATA_WAIT
from yolofast.profile.records import Profile

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
    decodes = setup.cache in ("off", "jpeg", "disk")
    if _comes_in_bursts(profile):
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
        return Remedy("find what the workers wait for: they compute little, and there are many already", wait_ms)
    why = "the workers wait more than they compute, and more of them wait at the same time"
    return Remedy(f"--workers {count}: {why}", _saved(profile, wait_ms, making_ms, count))


def _on_cores(profile: Profile) -> int:
    """As many as can compute beside the training process."""
    return min(_MOST_WORKERS, profile.setup.cores - 1)


def _enough(profile: Profile, wait_ms: float, making_ms: float) -> int:
    """As many as deliver a batch in the time of the rest of the step."""
    rest_ms = max(profile.step.mean - wait_ms, 1e-3)
    return min(_MOST_WORKERS, max(1, math.ceil(making_ms / rest_ms)))


def _saved(profile: Profile, wait_ms: float, making_ms: float, workers: int) -> float:
    return max(0.0, profile.step.mean - max(profile.step.mean - wait_ms, making_ms / workers))


def _comes_in_bursts(profile: Profile) -> bool:
    waits = [phase for phase in profile.phases if phase.name == DATA_WAIT]
    return any(phase.median_ms < _BURST * phase.mean_ms for phase in waits)
