"""`--profile-every`: the phases of some steps of a run, in its folder.

`profile.csv` has a row per timed step; `profile.json` sums all of them up. A resumed run replaces the epochs it
repeats. Of several GPUs it is the first one's.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from yolofast.files.atomic_file import write_whole
from yolofast.files.known_numbers import without_nan
from yolofast.profile.output import summary
from yolofast.profile.step_phases import AUGMENT, ORDER, TO_DEVICE
from yolofast.profile.step_statistics import beside, phase_figures, spread
from yolofast.runs.layout import FILES
from yolofast.train.batch_record import EpochRowsFile
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.gears.gears import Gear
from yolofast.train.run import Run
from yolofast.train.timing.clock import can_time_graphs, clock_for
from yolofast.train.timing.sampler import NoSampler, PhaseSampler, Sample

_BESIDE = (AUGMENT, TO_DEVICE)
COLUMNS = ("epoch", "batch", "gear", "step", *ORDER, *(f"{name} beside" for name in _BESIDE), "gpu_busy")
_GEAR = COLUMNS.index("gear")
_WARM_UP = 10
"""Steps of a run that are never timed: allocators and caches fill."""


class RecordedPhases(PhaseSampler):
    def __init__(self, run: Run, gear: Gear, every: int, folder: Path, next_epoch: int) -> None:
        device, batches = run.step.precision.device, len(run.batches)
        first = next_epoch * batches + min(_WARM_UP, batches // 2)
        in_graphs = can_time_graphs(device)
        super().__init__(
            run.step, clock_for(device), every=every, in_graphs=in_graphs, batches=run.batches, first=first
        )
        self._gear, self._images, self._folder, self._batches = gear, run.source_images_per_step, folder, batches
        self._busy = _utilisation_of(device)
        self._file = EpochRowsFile(folder / FILES.phases, COLUMNS, next_epoch)
        self._rows = self._file.kept

    def end_epoch(self, epoch: int) -> None:
        """After somebody has waited for the device, as the end of an epoch does anyway."""
        samples, busy, gear = self.take(), self._busy(), _name_of(self._gear)
        if not samples:
            return
        rows = [self._row(epoch, sample, gear, busy) for sample in samples]
        self._file.append(rows)
        self._rows += rows
        write_whole(self._folder / FILES.profile, json.dumps(without_nan(self._summary()), indent=2).encode())

    def _row(self, epoch: int, sample: Sample, gear: str, busy: float | None) -> list[str]:
        times = [sum(sample.phases.values()), *(sample.phases.get(name) for name in ORDER)]
        times += [sample.beside.get(name) for name in _BESIDE]
        cells = ["" if value is None else f"{value:.6g}" for value in (*times, busy)]
        return [str(epoch), str(sample.iteration % self._batches), gear, *cells]

    def _summary(self) -> dict[str, Any]:
        """Of the epochs in the last one's gear: those before it shifted up would only blur it."""
        gear = self._rows[-1][_GEAR]
        rows = [_numbers(row) for row in self._rows if row[_GEAR] == gear]
        step = spread([row["step"] for row in rows])
        phases = phase_figures([{name: row[name] for name in ORDER if name in row} for row in rows])
        for name in _BESIDE:
            if values := [row[f"{name} beside"] for row in rows if f"{name} beside" in row]:
                phases += (beside(name, values, step.mean, "on the GPU's side stream"),)
        busy = [row["gpu_busy"] for row in rows if "gpu_busy" in row]
        return {
            **summary(phases, step, gear, fmean(busy) if busy else None, self._images / step.mean * 1e3),
            "timed_steps": len(rows),
            "every": self._chosen.every,
        }


def recorded_phases(run: Run, gear: Gear, folder: Path | None, next_epoch: int) -> PhaseSampler:
    """Nothing is timed unless it was asked for, nor by ranks that have no folder."""
    every = run.config.profile_every
    return RecordedPhases(run, gear, every, folder, next_epoch) if every and folder is not None else NoSampler()


def _name_of(gear: Gear) -> str:
    return gear.now if isinstance(gear, GearBox) else "eager"


def _utilisation_of(device: torch.device) -> Callable[[], float | None]:
    """NVML's, of the last moments, if `pynvml` is installed; asked once per epoch."""
    if device.type != "cuda":
        return lambda: None
    try:
        torch.cuda.utilization(device)
    except (ImportError, RuntimeError):
        return lambda: None
    return lambda: torch.cuda.utilization(device) / 100


def _numbers(row: Sequence[str]) -> dict[str, float]:
    return {name: float(cell) for name, cell in zip(COLUMNS, row, strict=True) if cell and name != "gear"}
