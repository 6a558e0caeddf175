"""A training run as numbers, whatever it was read from.

Epochs count from 1; NaN is unknown. A loss that was NaN or huge is infinite.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from yolofast.runs.divergence import lost_epochs
from yolofast.runs.layout import FILES, FITNESS_WORDS
from yolofast.runs.table import bounded
from yolofast.runs.tracking import Agreement

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

RUN_FOLDER, YOLOV7_LOG, YOLOX_LOG = "run folder", f"YOLOv7 {FILES.yolov7_results}", f"YOLOX {FILES.yolox_log}"
MIX = ("mosaic", "mixup")
SIZE = "size"
BOXES = ("boxes", "box_size")
CONTENTS = (*MIX, *BOXES, SIZE)
"""What a batch holds: shares of its images, boxes in all, mean side as a share of the image, pixels of a side."""


def known_losses(values: Floats) -> Floats:
    """Of a log that writes every loss: a NaN in it was one in the training, too."""
    return np.where(np.isnan(values), np.inf, bounded(values))


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """One value per epoch."""

    number: Ints
    train: Floats
    val: Floats
    fitness: Floats
    lr: Floats
    score: str = FITNESS_WORDS
    """What `fitness` is: of logs that have one of the two, that one by its name."""
    unit: str = "epoch"
    """`part` where no file says epochs: rows are counted in parts of equal length."""

    def __len__(self) -> int:
        return len(self.number)

    def lasting(self, count: float) -> str:
        """So many epochs, in words."""
        digits = f"{count:.0f}" if count == round(count) else f"{count:.3g}"
        return f"{digits} {self.unit}{'s' * (digits != '1')}"


@dataclass(frozen=True, kw_only=True)
class Batches:
    """One value per recorded batch, in the order of training."""

    epoch: Ints
    loss: Floats
    lr: Floats
    contents: Mapping[str, Floats] = field(default_factory=dict)
    """By the names of `CONTENTS`, those that are known."""
    l1: Floats | None = None
    gradient_norm: Floats | None = None
    trainable: Floats | None = None
    assigner: tuple[str, ...] = ()
    mosaic_closed: int | None = None
    """The first epoch without mosaics, of a log that says this and not what its batches hold."""
    from_the_first: bool = False
    """The first value is of the run's very first batch: no update came before."""

    def __len__(self) -> int:
        return len(self.loss)

    def by_epoch(self, values: Floats) -> tuple[Ints, Floats]:
        """The epochs, and the mean of these values over the batches of each."""
        numbers, first, counts = np.unique(self.epoch, return_index=True, return_counts=True)
        return numbers, np.add.reduceat(values, first) / counts


@dataclass(frozen=True, kw_only=True)
class History:
    source: str
    format: str
    epochs: Epochs
    batches: Batches | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Hyper-parameters and flags, as far as files beside the log say them."""
    same_loss: bool = True
    """Training and validation losses are computed alike; their levels, not only their trends, can be compared."""
    remarks: tuple[str, ...] = ()
    """What a reader of the log has to know, because it was not read as it stands."""
    tracking: Agreement | None = None
    """How well its checkpoints track, where `tracksweep` has tried."""

    @property
    def finest(self) -> tuple[Floats, Floats, Ints, str]:
        """Losses, learning rates, epochs, and what each value is of: the batches where they are known."""
        if self.batches is not None:
            return self.batches.loss, self.batches.lr, self.batches.epoch, "batch"
        return self.epochs.train, self.epochs.lr, self.epochs.number, "epoch"

    @property
    def lost(self) -> list[str]:
        """For each epoch why its weights are of no use; empty where nothing says so."""
        return lost_epochs(self.epochs.train, self.epochs.val, len(self.epochs))

    @property
    def one_validation(self) -> Epochs:
        """The epochs without validation losses of an earlier assigner, which have another level."""
        if not self.same_loss:  # always of the same assigner, whichever one trains
            return self.epochs
        return dataclasses.replace(self.epochs, val=self._of_last_assigner(self.epochs.val))

    @property
    def comparable(self) -> Epochs:
        """The epochs as they can be compared with one another: scores all, losses of the last assigner only.

        Epochs of no use have neither.
        """
        lost, one = np.array([bool(why) for why in self.lost]), self.one_validation
        train = self._of_last_assigner(self.epochs.train)
        train, val, fitness = (np.where(lost, np.nan, values) for values in (train, one.val, one.fitness))
        return dataclasses.replace(one, train=train, val=val, fitness=fitness)

    def _of_last_assigner(self, losses: Floats) -> Floats:
        batches = self.batches
        if batches is None or len(batches.assigner) != len(batches):
            return losses
        earlier = batches.epoch[np.array(batches.assigner) != batches.assigner[-1]]
        return np.where(np.isin(self.epochs.number, earlier), np.nan, losses)


def epochs_of(batches: Batches, fitness: Mapping[int, float] | None = None, score: str = FITNESS_WORDS) -> Epochs:
    """Means over the batches of each epoch; batches do not know the fitness."""
    (numbers, train), (_, lr) = batches.by_epoch(batches.loss), batches.by_epoch(batches.lr)
    good = np.array([(fitness or {}).get(number, np.nan) for number in numbers.tolist()])
    return Epochs(number=numbers, train=train, val=np.full(len(numbers), np.nan), fitness=good, lr=lr, score=score)
