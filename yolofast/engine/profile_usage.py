"""How much of the machine a run uses while it goes: processors by the operating system, the GPU by its own records."""

from collections.abc import Callable
from typing import NamedTuple

import psutil
import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from yolofast.engine.profile_quiet import quiet_profiler
from yolofast.engine.setup import Run
from yolofast.loader.workers import WorkerLoader
from yolofast.profile.statistics import covered


class CpuSeconds(NamedTuple):
    main: float
    workers: float

    def __sub__(self, earlier: "CpuSeconds") -> "CpuSeconds":
        return CpuSeconds(self.main - earlier.main, self.workers - earlier.workers)


def cpu_seconds(run: Run) -> CpuSeconds:
    """Used so far by this process, and by its workers, those that have ended included."""
    own = psutil.Process().cpu_times()
    living = run.batches.processes() if isinstance(run.batches, WorkerLoader) else []
    workers = own.children_user + own.children_system + sum(_seconds_of(pid) for pid in living)
    return CpuSeconds(own.user + own.system, workers)


def _seconds_of(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:  # it has just ended
        return 0.0
    return float(times.user + times.system)


class Busy(NamedTuple):
    share: float | None
    by: str


def gpu_busy(steps: Callable[[int], None], count: int, step_ms: float, device: torch.device) -> Busy:
    """The union of the times of all kernels and copies of `count` steps; NVML's figure where they are not seen.

    A step is as long as it is without the profiler (`step_ms`), which is asked at every launch, but not by kernels.
    """
    quiet_profiler()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        steps(count)
        torch.cuda.synchronize(device)
    spans = [
        (event.time_range.start, event.time_range.end)
        for event in seen.events()
        if event.device_type == DeviceType.CUDA
    ]
    if len(spans) > 10:
        kernels_ms = covered(spans) / 1e3 / count
        return Busy(min(kernels_ms / step_ms, 1.0), "union of the kernels' times")
    try:
        return Busy(torch.cuda.utilization(device) / 100, "NVML")
    except (ImportError, RuntimeError):
        return Busy(None, "the profiler sees no kernels here, and pynvml is not installed")
