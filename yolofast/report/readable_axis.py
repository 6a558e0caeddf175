"""An axis of losses on which the usual ones can be told apart, although a few lie far above."""

from typing import Any

import numpy as np

from yolofast.report.history import Floats
from yolofast.report.statistics import in_digits

_FAR = 8.0
"""Times what is usual."""


def clip_far_above(axes: Any, train: Floats, val: Floats | None = None) -> None:
    """Says in the panel how many losses it does not show. Validation has a level of its own."""
    curves = [values[np.isfinite(values)] for values in (train, val) if values is not None]
    usual = max((float(np.percentile(c, q)) for c, q in zip(curves, (75, 0), strict=False) if len(c)), default=0.0)
    values = np.concatenate(curves)
    far = values > _FAR * usual
    if usual <= 0 or not far.any():
        return
    shown = values[~far]
    margin = 0.05 * float(np.ptp(shown)) or 0.05 * usual
    axes.set_ylim(float(shown.min()) - margin, float(shown.max()) + margin)
    words = f"{far.sum():,} above, up to {in_digits(values.max())}, {'is' if far.sum() == 1 else 'are'} not shown"
    axes.text(0.5, 0.98, words, fontsize=8, ha="center", va="top", transform=axes.transAxes)
