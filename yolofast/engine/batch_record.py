"""What every batch of a run cost and held, for `yolofast diagnose`: measured by the step, read once per epoch.

What the device need not compute – learning rate, mosaics, size – stays on the host. Of several ranks the first one
records its own part of the batches.
"""

import math
from pathlib import Path

from yolofast.engine.batch_file import BatchFile
from yolofast.engine.criterion import Criterion
from yolofast.engine.step import TrainStep
from yolofast.engine.step_record import StepRecord
from yolofast.structures import Batch

Value = float | int | str


class BatchRecord:
    """`next_is` before each step, `end_epoch` after the last one."""

    def __init__(self, step: TrainStep, batches: int, folder: Path, next_epoch: int) -> None:
        """`batches` are those of an epoch. Made before the first step, so that graphs capture it."""
        self._step, self._file = step, BatchFile(folder, next_epoch)
        self._measured = step.record = StepRecord(step.precision.device, batches)
        self._known: list[tuple[Value, ...]] = []
        self._trainable, self._assigner = 0, ""

    def start_epoch(self) -> None:
        self._measured.forget()
        self._known.clear()
        self._trainable = sum(p.numel() for p in self._step.model.parameters() if p.requires_grad)
        self._assigner = assigner_of(self._step.criterion)

    def next_is(self, batch: Batch, seen: Batch, lr: float) -> None:
        """A batch as it was made, and as the network will see it."""
        self._measured.next_is(len(self._known))
        mix = (math.nan, math.nan) if batch.mix is None else (batch.mix.mosaic, batch.mix.mixup)
        height, width = seen.images.shape[2:]
        self._known.append((*mix, lr, math.sqrt(height * width), self._trainable, self._assigner))

    def end_epoch(self, number: int) -> None:
        """Waits for the device, as the end of an epoch does anyway."""
        measured = self._measured.read(len(self._known))
        self._file.epoch(number, [(*row, *known) for row, known in zip(measured, self._known, strict=True)])


def assigner_of(criterion: Criterion) -> str:
    """Which assigner a loss has, possibly inside another one; empty if it does not say."""
    inner = getattr(criterion, "criterion", criterion)
    return str(getattr(inner, "assigner", ""))
