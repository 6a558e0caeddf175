"""Precision, recall and average precision of one class from its detections in order of falling score."""

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
