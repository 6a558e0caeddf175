"""What it costs a box to take a prediction, shared by OTA, SimOTA and their tests."""

import torch
from torch import Tensor

_IOU_WEIGHT = 3.0
# Where a score is exactly 0 or 1 its logarithm is infinite; cut off there, as torch does in binary_cross_entropy.
_LARGEST_LOG = 100.0


def class_and_iou_cost(objectness_BA: Tensor, classes_BAC: Tensor, labels_BG: Tensor, iou_BGA: Tensor) -> Tensor:
    """BCE of y = √(σ(class)·σ(objectness)) against the box's class, summed over classes, plus 3·(−ln IoU): `[B, G, A]`.

    The class axis never meets the box axis: all classes count as absent, which is one number per prediction, and the
    box's own class is then corrected by one gathered number per pair.
    """
    score_BAC = (classes_BAC.sigmoid() * objectness_BA.sigmoid()[..., None]).sqrt()
    absent_BAC = -torch.log1p(-score_BAC).clamp(min=-_LARGEST_LOG)
    present_BAC = -torch.log(score_BAC).clamp(min=-_LARGEST_LOG)
    correction_BCA = (present_BAC - absent_BAC).transpose(1, 2)
    label_BGA = labels_BG[..., None].expand(-1, -1, iou_BGA.shape[-1])
    own_class_BGA = correction_BCA.gather(1, label_BGA)
    return absent_BAC.sum(-1)[:, None] + own_class_BGA - _IOU_WEIGHT * torch.log(iou_BGA + 1e-8)
