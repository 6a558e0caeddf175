"""Which epoch to ship, and by which measure.

The best epoch of many is partly luck. Epochs within the noise of one evaluation are taken for equally good. Of those
the one with the lowest validation loss is chosen: it is the one that is surest of what it finds. Scores of all
epochs can be compared; validation losses only where the assigner is the same, so others are left out there.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from yolofast.report.diagnose.statistics import noise_near
from yolofast.report.logs.history import Epochs, Floats
from yolofast.runs.layout import FILES, best_place, weights_of_epoch

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
            others = f"{alike - 1} other {self.unit}{'s are' if alike > 2 else ' is'}"
            words = f"; {others} within its noise of {self.noise:.2g}" if alike > 1 else ""
            return f"{self.criterion}: {self.value:.4g}{words}"
        of_these = "these" if decided == alike else f"the {decided} whose validation losses can be compared"
        return (
            f"{self.score} is {self.value:.4g}; {alike} epochs are within the noise of {self.noise:.2g} "
            f"of the highest, and of {of_these} it has the lowest validation loss"
        )


def shipped(choice: ShipChoice, weights: Path) -> tuple[str, Path | None]:
    """Which epoch to ship of those whose weights are there, and why; and its file. None without any weights.

    Where the weights of the chosen epoch were not kept, it is that of `best.pt`, which cannot be told from it.
    """
    own, best = weights / weights_of_epoch(choice.epoch), weights / FILES.best
    if own.exists() or choice.epoch == choice.best or not best.exists():
        return f"{choice.epoch} ({choice.why})", next((path for path in (own, best) if path.exists()), None)
    other = f"{choice.unit} {choice.epoch} cannot be told from it, but its weights were not kept: --save-period"
    return f"{choice.best}, that of {FILES.best} ({other}. {choice.why})", best


def choose_epoch(epochs: Epochs) -> ShipChoice | None:
    """None without anything to choose by."""
    is_scored = np.isfinite(epochs.fitness).any() and np.nanmax(epochs.fitness) > 0
    measures = {BY_SCORE: epochs.fitness} if is_scored else {BY_VALIDATION: -epochs.val, BY_TRAINING: -epochs.train}
    for measure, values in measures.items():
        if (best := best_place(values)) is not None:
            return _among_equals(epochs, measure, values, best)
    return None


def _among_equals(epochs: Epochs, measure: str, values: Floats, best: int) -> ShipChoice:
    """Of the places that are as good as the best of `values`."""
    known = np.flatnonzero(np.isfinite(values))
    noise = noise_near(values[known], int(np.searchsorted(known, best)))
    good = known[values[known] >= values[best] - noise]
    is_score, with_loss = measure == BY_SCORE, good[np.isfinite(epochs.val[good])]
    decided = with_loss if is_score and len(with_loss) > 1 and best in with_loss else with_loss[:0]
    chosen = int(decided[epochs.val[decided].argmin()]) if len(decided) else best
    criterion = f"highest {epochs.score}" + ", within its noise the lowest validation loss" * bool(len(decided))
    reason = ", for want of a validation" if measure == BY_TRAINING else ""
    return ShipChoice(
        epoch=int(epochs.number[chosen]),
        criterion=criterion if is_score else f"lowest {measure}{reason}",
        value=float(values[chosen] if is_score else -values[chosen]),
        noise=noise,
        best=int(epochs.number[best]),
        as_good=tuple(epochs.number[good].tolist()),
        by_loss=tuple(epochs.number[decided].tolist()),
        score=epochs.score if is_score else "",
        measure=measure,
        unit=epochs.unit,
    )
