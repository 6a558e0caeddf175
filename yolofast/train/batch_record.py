"""What every batch cost and held (`batches.csv`), and the phases of some steps (`--profile-every`).

The step measures on the device and is read once per epoch; learning rate, mosaics and size are known to the host. Of
several ranks the first one records its own part of the batches. `profile.csv` has a row per timed step, `profile.json`
sums them up.

Both files are appended epoch by epoch, so an epoch's cost stays the same however long the run is. A file is written
anew only when a run is resumed: without the epochs that will be repeated and without a row that a kill has torn.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from yolofast.files.atomic_file import write_whole
from yolofast.files.known_numbers import without_nan
from yolofast.loss.criterion import Criterion
from yolofast.profile.output import summary
from yolofast.profile.step_phases import AUGMENT, ORDER, TO_DEVICE
from yolofast.profile.step_statistics import parallel_phase, phase_figures, spread
from yolofast.ranks import reduces
from yolofast.runs.layout import EPOCH, FILES
from yolofast.runs.table import csv_rows
from yolofast.structures import Batch
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.gears.gears import Gear
from yolofast.train.record import short
from yolofast.train.run import Run
from yolofast.train.step import MEASURED, StepRecord, TrainStep
from yolofast.train.timing import NoSampler, PhaseSampler, StepSample, can_time_graphs, clock_for

_DIGITS = 10
"""Of an epoch, fewer: Python refuses to read thousands."""


class EpochRowsFile:
    def __init__(self, path: Path, columns: Sequence[str], next_epoch: int) -> None:
        """Of a run whose next epoch is this one: rows of it and of later ones are dropped."""
        self._path = path
        self.earlier = _rows_before(path, len(columns), next_epoch) if next_epoch else []
        write_whole(path, _text([columns, *self.earlier]).encode())

    def append(self, rows: Iterable[Iterable[object]]) -> None:
        try:
            with self._path.open("ab") as file:
                file.write(_text(rows).encode())
        except OSError as error:  # that of a full disk names no file
            raise OSError(error.errno, error.strerror, str(self._path)) from error


def _rows_before(path: Path, columns: int, epoch: int) -> list[list[str]]:
    try:
        lines = path.read_text(errors="replace").splitlines(keepends=True)
    except FileNotFoundError:  # of a run that was begun without it
        return []
    rows = [row for row in csv_rows(line for line in lines[1:] if line.endswith("\n")) if len(row) == columns]
    return [row for row in rows if row[0].isdecimal() and len(row[0]) < _DIGITS and int(row[0]) < epoch]


def _text(rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(short, row) for row in rows)
    return text.getvalue()


COLUMNS = (EPOCH.name, "batch", *MEASURED, "mosaic", "mixup", "lr", "size", "trainable", "assigner")


class BatchRecord:
    """`next_is` before each step, `end_epoch` after the last one."""

    def __init__(self, step: TrainStep, batches: int, folder: Path, next_epoch: int) -> None:
        """`batches` are those of an epoch. Made before the first step, so that graphs capture it."""
        self._step, self._file = step, EpochRowsFile(folder / FILES.batches, COLUMNS, next_epoch)
        self._measured = step.record = StepRecord(step.precision.device, batches)
        self._known: list[tuple[object, ...]] = []
        self._trainable, self._assigner = 0, ""

    def start_epoch(self) -> None:
        self._measured.forget()
        self._known.clear()
        self._trainable = sum(p.numel() for p in self._step.model.parameters() if p.requires_grad)
        self._assigner = assigner_of(self._step.criterion)

    def next_is(self, batch: Batch, resized: Batch, lr: float) -> None:
        self._measured.next_is(len(self._known))
        mix = (math.nan, math.nan) if batch.mix is None else (batch.mix.mosaic, batch.mix.mixup)
        height, width = resized.images.shape[2:]
        self._known.append((*mix, lr, math.sqrt(height * width), self._trainable, self._assigner))

    def end_epoch(self, number: int) -> None:
        """Waits for the device, as the end of an epoch does anyway."""
        rows = zip(self._measured.read(len(self._known)), self._known, strict=True)
        self._file.append((number, batch, *measured, *known) for batch, (measured, known) in enumerate(rows))


def assigner_of(criterion: Criterion) -> str:
    """Which assigner a loss has, possibly inside another one; empty if it does not say."""
    return str(getattr(getattr(criterion, "criterion", criterion), "assigner", ""))


_ON_SIDE_STREAM = (AUGMENT, TO_DEVICE)
PHASE_COLUMNS = ("epoch", "batch", "gear", "step", *ORDER, *(f"{name} beside" for name in _ON_SIDE_STREAM), "gpu_busy")
_GEAR = PHASE_COLUMNS.index("gear")
_WARM_UP = 10
"""Steps of a run that are never timed: allocators and caches fill."""


class RecordedPhases(PhaseSampler):
    def __init__(self, run: Run, gear: Gear, every: int, folder: Path, next_epoch: int) -> None:
        device, batches = run.step.precision.device, len(run.batches)
        first = next_epoch * batches + min(_WARM_UP, batches // 2)
        # A graph with marks would be one that the other ranks, which time nothing, do not launch.
        in_graphs = can_time_graphs(device) and not reduces()
        super().__init__(
            run.step, clock_for(device), every=every, in_graphs=in_graphs, batches=run.batches, first=first
        )
        self._gear, self._images, self._folder, self._batches = gear, run.source_images_per_step, folder, batches
        self._device = device
        self._file = EpochRowsFile(folder / FILES.phases, PHASE_COLUMNS, next_epoch)
        self._rows = self._file.earlier

    def end_epoch(self, epoch: int) -> None:
        """After somebody has waited for the device, as the end of an epoch does anyway."""
        samples, busy = self.take(), _utilisation(self._device)
        gear = self._gear.now if isinstance(self._gear, GearBox) else "eager"
        if not samples:
            return
        rows = [self._row(epoch, sample, gear, busy) for sample in samples]
        self._file.append(rows)
        self._rows += rows
        write_whole(self._folder / FILES.profile, json.dumps(without_nan(self._summary()), indent=2).encode())

    def _row(self, epoch: int, sample: StepSample, gear: str, busy: float | None) -> list[str]:
        times = [sum(sample.phases.values()), *(sample.phases.get(name) for name in ORDER)]
        times += [sample.side_stream.get(name) for name in _ON_SIDE_STREAM]
        cells = ["" if value is None else f"{value:.6g}" for value in (*times, busy)]
        return [str(epoch), str(sample.iteration % self._batches), gear, *cells]

    def _summary(self) -> dict[str, Any]:
        """Of the epochs in the last one's gear: those before it shifted up are slower."""
        gear = self._rows[-1][_GEAR]
        rows = [_numbers(row) for row in self._rows if row[_GEAR] == gear]
        step = spread([row["step"] for row in rows])
        phases = phase_figures([{name: row[name] for name in ORDER if name in row} for row in rows])
        for name in _ON_SIDE_STREAM:
            if values := [row[f"{name} beside"] for row in rows if f"{name} beside" in row]:
                phases += (parallel_phase(name, values, step.mean, "on the GPU's side stream"),)
        busy = [row["gpu_busy"] for row in rows if "gpu_busy" in row]
        return {
            **summary(phases, step, gear, fmean(busy) if busy else None, self._images / step.mean * 1e3),
            "timed_steps": len(rows),
            "every": self._chosen.every,
        }


def recorded_phases(run: Run, gear: Gear, folder: Path | None, next_epoch: int) -> PhaseSampler:
    """Nothing is timed without `--profile-every`, nor by ranks that have no folder."""
    every = run.config.profile_every
    return RecordedPhases(run, gear, every, folder, next_epoch) if every and folder is not None else NoSampler()


def _utilisation(device: torch.device) -> float | None:
    """NVML's, of the last moments, if `yolofast[gpu]` is installed."""
    try:
        return torch.cuda.utilization(device) / 100 if device.type == "cuda" else None
    except (ImportError, RuntimeError):
        return None


def _numbers(row: Sequence[str]) -> dict[str, float]:
    return {name: float(cell) for name, cell in zip(PHASE_COLUMNS, row, strict=True) if cell and name != "gear"}
