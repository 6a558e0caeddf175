"""Which epoch to ship, and by which measure.

The best epoch of many is partly luck. Epochs within the noise of one evaluation are taken for equally good, and of
those the one with the lowest validation loss is chosen, which is the one that is surest of what it finds. Scores of all
epochs can be compared; validation losses only where the assigner is the same, so others are left out there.
"""

from dataclasses import dataclass

import numpy as np

from yolofast.report.diagnose.statistics import noise_near
from yolofast.report.logs.history import Epochs, Floats, Ints
from yolofast.runs.layout import best_place

BY_SCORE, BY_VALIDATION, BY_TRAINING = "score", "validation loss", "training loss"


@dataclass(frozen=True)
class ShipChoice:
    epoch: int
    criterion: str
    value: float
    """Of the first measure the criterion names."""
    noise: float
    """Standard deviation of the measure from one evaluation to the next."""
    best: int
    """The epoch with the highest measure, luck included: that of `best.pt`."""
    as_good: tuple[int, ...]
    """Epochs that cannot be told from the best one."""
    by_loss: tuple[int, ...] = ()
    """Those of them whose validation losses decided."""
    score: str = ""
    """What it was chosen by, unless that was a loss."""
    measure: str = BY_SCORE
    """Or `BY_VALIDATION`, `BY_TRAINING`: how much the choice is worth."""
    unit: str = "epoch"
    """Or `part`, where no file says epochs."""

    @property
    def why(self) -> str:
        """In words: the same in the terminal and on a run's page."""
        alike, decided = len(self.as_good), len(self.by_loss)
        if not decided:
            words = (
                f"; {alike - 1} other {self.unit}{'s are' if alike > 2 else ' is'} within its noise of {self.noise:.2g}"
            )
            return f"{self.criterion}: {self.value:.4g}{words if alike > 1 else ''}"
        of_these = "these" if decided == alike else f"the {decided} whose validation losses can be compared"
        return (
            f"{self.score} is {self.value:.4g}; {alike} epochs are within the noise of {self.noise:.2g} "
            f"of the highest, and of {of_these} it has the lowest validation loss"
        )


def choose_epoch(epochs: Epochs) -> ShipChoice | None:
    """None without anything to choose by."""
    if np.isfinite(epochs.fitness).any() and np.nanmax(epochs.fitness) > 0:
        return _highest_score(epochs)
    if np.isfinite(epochs.val).any():
        return _lowest(epochs, epochs.val, BY_VALIDATION)
    if np.isfinite(epochs.train).any():
        return _lowest(epochs, epochs.train, BY_TRAINING, ", for want of a validation")
    return None


def _highest_score(epochs: Epochs) -> ShipChoice:
    best, noise, good = _best(epochs.fitness)
    known = good[np.isfinite(epochs.val[good])]
    decided = known if len(known) > 1 and best in known else known[:0]
    chosen = int(decided[epochs.val[decided].argmin()]) if len(decided) else best
    return ShipChoice(
        epoch=int(epochs.number[chosen]),
        criterion=f"highest {epochs.score}" + ", within its noise the lowest validation loss" * bool(len(decided)),
        value=float(epochs.fitness[chosen]),
        noise=noise,
        best=int(epochs.number[best]),
        as_good=tuple(epochs.number[good].tolist()),
        by_loss=tuple(epochs.number[decided].tolist()),
        score=epochs.score,
    )


def _lowest(epochs: Epochs, losses: Floats, measure: str, reason: str = "") -> ShipChoice:
    best, noise, good = _best(-losses)
    number = int(epochs.number[best])
    return ShipChoice(
        epoch=number,
        criterion=f"lowest {measure}{reason}",
        value=float(losses[best]),
        noise=noise,
        best=number,
        as_good=tuple(epochs.number[good].tolist()),
        measure=measure,
        unit=epochs.unit,
    )


def _best(measure: Floats) -> tuple[int, float, Ints]:
    """Where it is highest, its noise there, and all places that are as good."""
    best = best_place(measure)
    assert best is not None, "asked only where something was measured"
    known = np.flatnonzero(np.isfinite(measure))
    noise = noise_near(measure[known], int(np.searchsorted(known, best)))
    return best, noise, known[measure[known] >= measure[best] - noise]
