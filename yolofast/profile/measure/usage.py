"""How much of the CPU and GPU a run uses, and where the host waits for the GPU (torch's synchronization warnings)."""

import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from yolofast.loader.workers import WorkerLoader
from yolofast.profile.measure.trace import quiet_profiler
from yolofast.profile.records import WaitPlace, Waits
from yolofast.profile.step_statistics import covered
from yolofast.train.run import Run


class CpuSeconds(NamedTuple):
    main: float
    workers: float
    machine: float = 0.0
    """Of all processes, and what the host of a virtual machine gave to others."""

    def __sub__(self, earlier: "CpuSeconds") -> "CpuSeconds":
        return CpuSeconds(self.main - earlier.main, self.workers - earlier.workers, self.machine - earlier.machine)


def cpu_seconds(run: Run) -> CpuSeconds:
    """Used so far by this process, and by its workers, those that have ended included."""
    own = psutil.Process().cpu_times()
    living = run.batches.processes() if isinstance(run.batches, WorkerLoader) else []
    workers = own.children_user + own.children_system
    for pid in living:
        with suppress(psutil.Error):  # it has just ended
            times = psutil.Process(pid).cpu_times()
            workers += times.user + times.system
    of_all = psutil.cpu_times()
    busy = sum(getattr(of_all, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))
    return CpuSeconds(own.user + own.system, workers, busy)


class Busy(NamedTuple):
    share: float | None
    by: str


def gpu_busy(steps: Callable[[int], None], count: int, step_ms: float, device: torch.device) -> Busy:
    """The union of the times of all kernels and copies of `count` steps; NVML's figure where the profiler misses them.

    `step_ms` is the step without the profiler, which slows down launches, but not kernels.
    """
    quiet_profiler()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as recording:
        steps(count)
        torch.cuda.synchronize(device)
    spans = [
        (event.time_range.start, event.time_range.end)
        for event in recording.events()
        if event.device_type == DeviceType.CUDA
    ]
    if len(spans) > 10:
        kernels_ms = covered(spans) / 1e3 / count
        return Busy(min(kernels_ms / step_ms, 1.0), "union of the kernels' times")
    try:
        return Busy(torch.cuda.utilization(device) / 100, "NVML")
    except (ImportError, RuntimeError):
        return Busy(None, "the profiler sees no kernels here, and NVML is not there: pip install 'yolofast[gpu]'")


def count_waits(steps: Callable[[], int], phase: Callable[[], str]) -> Waits:
    """While `steps` run on a GPU, which returns how many there were; `phase` is called at each wait. It is empty in
    steps that only lead up to those."""
    found: Counter[tuple[str, str]] = Counter()

    def note(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if "synchroniz" in str(message) and phase():
            path = Path(filename)
            found[phase(), f"{path.parent.name}/{path.name}:{lineno}"] += 1

    mode = torch.cuda.get_sync_debug_mode()
    _set_mode("warn")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = note
            made = steps()
    finally:
        _set_mode(mode)
    return Waits(tuple(WaitPlace(name, place, count / made) for (name, place), count in found.most_common()))


def _set_mode(mode: int | str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is a prototype, and may miss some
        torch.cuda.set_sync_debug_mode(mode)
