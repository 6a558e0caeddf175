"""The smooth course of a loss, and what is left beside it."""

import numpy as np
from scipy.signal import savgol_filter

from yolofast.report.history import Floats

_MOST_BLOCKS, _WINDOW = 256, 6


def around_course(values: Floats) -> Floats:
    """Relative to a course that bends slowly: a parabola through every sixth of the values."""
    return np.asarray(values / smooth_course(values) - 1)


def smooth_course(values: Floats) -> Floats:
    blocks = np.array_split(values, min(_MOST_BLOCKS, len(values)))
    means = np.array([block.mean() for block in blocks])
    window = max(len(means) // _WINDOW, 5) | 1
    course = savgol_filter(means, min(window, (len(means) - 1) | 1), 2, mode="interp")
    ends = np.cumsum([len(block) for block in blocks])
    centres = ends - np.array([len(block) for block in blocks]) / 2 - 0.5
    smooth = np.interp(np.arange(len(values)), centres, course)
    return np.asarray(np.maximum(smooth, 1e-3 * float(np.abs(means).max()) or 1.0))
