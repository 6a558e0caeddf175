"""The part of the box loss that teaches IBin which bin a side falls into.

A side's size is the centre of its likeliest bin plus an offset (`decode_bins`). Through the arg-max no gradient
flows, so the overlap alone would train the offset and leave the bins at chance; each bin's logit therefore gets a
binary cross-entropy of its own. The published description names that term without its weight or reduction: here
it is the mean over positives and bins, the two sides added, and stands in the box term beside 1 − CIoU with weight 1.
"""

import torch
from torch import Tensor

from yolofast.loss.bce import bce
from yolofast.raw_rows import BIN_RANGE


def bin_loss(logits_BS2N: Tensor, size_BS2: Tensor) -> Tensor:
    """`[B, S]`: BCE of width's and height's N bins against the bin nearest to `size_BS2`, the true size in anchors.

    Sizes beyond the bins' range count as its ends.
    """
    bins = logits_BS2N.shape[-1]
    # Bins lie side by side, so the nearest centre is that of the bin the size falls into.
    nearest = (size_BS2.clamp(0, BIN_RANGE) * (bins / BIN_RANGE)).long().clamp(max=bins - 1)
    wanted = torch.arange(bins, device=nearest.device) == nearest[..., None]
    return bce(logits_BS2N, wanted.to(logits_BS2N.dtype)).mean(-1).sum(-1)
