"""Binary cross-entropy on logits with the options YOLOv7 gives it."""

import torch.nn.functional as F
from torch import Tensor

_FOCAL_ALPHA = 0.25
_SMALLEST_ERROR = 1e-12


def bce(logits: Tensor, target: Tensor, positive_weight: float = 1.0, focal_gamma: float = 0.0) -> Tensor:
    """Element-wise. `positive_weight` scales the positive part; `focal_gamma` above 0 makes it focal loss."""
    weight = None if positive_weight == 1.0 else logits.new_full((), positive_weight)
    loss = F.binary_cross_entropy_with_logits(logits, target, pos_weight=weight, reduction="none")
    if focal_gamma > 0:
        probability = logits.sigmoid()
        right = target * probability + (1 - target) * (1 - probability)
        alpha = target * _FOCAL_ALPHA + (1 - target) * (1 - _FOCAL_ALPHA)
        # Below a power of 1 the slope at 0 is infinite, and a saturated prediction gets there.
        loss = loss * alpha * (1 - right).clamp(min=_SMALLEST_ERROR) ** focal_gamma
    return loss
