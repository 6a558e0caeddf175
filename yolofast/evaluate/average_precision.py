"""Precision, recall and average precision of one class, from its detections in order of falling score.

`Curves` are the curves behind the numbers at an overlap of 0.5: over confidence, and of precision over recall.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Sentinel = Literal["v7", "v5"]
"""Where the curve of precision over recall is brought down to 0: `v7` 0.01 behind the highest recall reached, `v5`
(`--v5-metric`) at a recall of 1."""

_RECALLS = np.linspace(0, 1, 101)


def precision_recall(right: npt.NDArray[np.bool_], boxes: int) -> tuple[Floats, Floats]:
    """[n, …] both, if the detections down to this one are counted; `boxes` is how many there are to find."""
    hits = right.cumsum(axis=0)
    tries = np.arange(1, len(right) + 1).reshape(-1, *[1] * (right.ndim - 1))
    return hits / tries, hits / boxes


def envelope(precision: Floats, recall: Floats, sentinel: Sentinel) -> tuple[Floats, Floats]:
    """Recall and precision of the curve's corners, [n + 2] each; precision never rises again with recall."""
    end = recall[-1] + 0.01 if sentinel == "v7" else 1.0
    corners = np.concatenate(([0.0], recall, [end]))
    heights = np.concatenate(([1.0], precision, [0.0]))
    return corners, np.maximum.accumulate(heights[::-1])[::-1]


def average_precision(precision: Floats, recall: Floats, sentinel: Sentinel) -> float:
    """The area below the envelope, read at 101 recalls and joined by straight lines."""
    heights = np.interp(_RECALLS, *envelope(precision, recall, sentinel))
    return float(((heights[1:] + heights[:-1]) / 2 * np.diff(_RECALLS)).sum())


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


def fill_row(
    curves: Curves, row: int, scores: npt.NDArray[np.float32], precision: Floats, recall: Floats, sentinel: Sentinel
) -> None:
    """Read one class's curves from its detections, [n] each in order of falling score."""
    # Above the best score nothing is detected: recall is 0, precision by convention 1.
    curves.precision[row] = np.interp(-GRID, -scores, precision, left=1)
    curves.recall[row] = np.interp(-GRID, -scores, recall, left=0)
    curves.precision_at_recall[row] = np.interp(GRID, *envelope(precision, recall, sentinel))
