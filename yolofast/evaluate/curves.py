"""The curves behind the numbers, at an overlap of 0.5: over confidence, and of precision over recall."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yolofast.evaluate.average_precision import Sentinel, envelope

Floats = npt.NDArray[np.float64]

GRID = np.linspace(0, 1, 1000)
"""The confidences, and the recalls, the curves are read at."""


@dataclass(frozen=True)
class Curves:
    """One row per class of the result."""

    precision: Floats
    """[k, 1000] over confidence."""
    recall: Floats
    """[k, 1000] over confidence."""
    precision_at_recall: Floats
    """[k, 1000] over recall."""

    @property
    def f1(self) -> Floats:
        """[k, 1000] over confidence."""
        return 2 * self.precision * self.recall / (self.precision + self.recall + 1e-16)


def empty_curves(classes: int) -> Curves:
    """Of classes without a single detection."""
    return Curves(*(np.zeros((classes, len(GRID))) for _ in range(3)))


def fill_row(
    curves: Curves, row: int, scores: npt.NDArray[np.float32], precision: Floats, recall: Floats, sentinel: Sentinel
) -> None:
    """Read one class's curves from its detections, [n] each in order of falling score."""
    # Above the best score nothing is detected: recall is 0, precision by convention 1.
    curves.precision[row] = np.interp(-GRID, -scores, precision, left=1)
    curves.recall[row] = np.interp(-GRID, -scores, recall, left=0)
    curves.precision_at_recall[row] = np.interp(GRID, *envelope(precision, recall, sentinel))
