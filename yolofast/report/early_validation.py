"""A validation loss far above training's in the first epochs, which looks like a fault and is none.

It is a remark and no verdict: it passes by itself, and nothing that is shipped comes from those epochs.
"""

import numpy as np

from yolofast.report.history import Epochs
from yolofast.report.statistics import in_digits

_FAR = 5.0
"""Times the training loss, and times what the same ratio is afterwards."""
_FIRST, _FIRST_SHARE = 3, 0.1


def first_epochs(epochs: Epochs) -> int:
    """How many may have validation losses that say nothing yet."""
    return max(_FIRST, round(_FIRST_SHARE * len(epochs)))


def early_validation(epochs: Epochs) -> str | None:
    first = first_epochs(epochs)
    known = np.isfinite(epochs.val) & np.isfinite(epochs.train) & (epochs.train > 0)
    ratio = np.divide(epochs.val, epochs.train, out=np.full(len(epochs), np.nan), where=known)
    early, later = known & (np.arange(len(epochs)) < first), known & (np.arange(len(epochs)) >= first)
    usual = float(np.median(ratio[later])) if later.any() else 1.0
    far = np.flatnonzero(early & (ratio > _FAR) & (ratio > _FAR * usual))
    if not len(far):
        return None
    worst, last = far[ratio[far].argmax()], int(epochs.number[far[-1]])
    return (
        f"the validation loss was {in_digits(epochs.val[worst])} in epoch {epochs.number[worst]}, where training had "
        f"{epochs.train[worst]:.3g}: so early the statistics of BatchNorm, or the average of the weights, are still "
        f"behind the network that learns. Judge validation from epoch {last + 1} on; if it lasts, take a longer "
        "warm-up or larger batches, or start from pretrained weights"
    )
