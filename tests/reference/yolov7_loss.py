"""The three YOLOv7 losses: anchor (every candidate is a positive), OTA, and aux OTA.

A loss is its positives and then `terms`, which is the same for all three. Positives are in column order; where two
share a cell and anchor, each contributes to the box and class terms, and the later one sets the objectness target.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.reference import ota
from tests.reference.boxes import complete_iou
from tests.reference.candidates import AnchorGrid, Candidate, find_candidates, to_cells

AUX_WEIGHT = 0.25


@dataclass(frozen=True, kw_only=True)
class LossSettings:
    """Gains as the loss applies them, that is after the scaling by image size, classes and levels."""

    box: float = 0.05
    obj: float = 1.0
    cls: float = 0.5
    cls_pw: float = 1.0
    obj_pw: float = 1.0
    anchor_t: float = 4.0
    fl_gamma: float = 0.0
    label_smoothing: float = 0.0
    gr: float = 1.0
    cls_gr: float = 0.0


@dataclass(frozen=True)
class Terms:
    """Box, objectness and class loss before the gains."""

    box: Tensor
    obj: Tensor
    cls: Tensor

    def __add__(self, other: "Terms") -> "Terms":
        return Terms(self.box + other.box, self.obj + other.obj, self.cls + other.cls)

    def __mul__(self, weight: float) -> "Terms":
        return Terms(self.box * weight, self.obj * weight, self.cls * weight)


@dataclass(frozen=True)
class LossResult:
    loss: Tensor  # scalar, times the batch size
    items: Tensor  # [4] box, obj, cls, total; with gains, without the batch size, detached
    positives: list[Candidate]
    aux_positives: list[Candidate]


def anchor_loss(preds: Sequence[Tensor], targets: Tensor, grid: AnchorGrid, settings: LossSettings) -> LossResult:
    """preds: per level [B, A, rows, columns, 5 + nc]; targets [T, 6] = image, class, cx, cy, w, h normalised."""
    positives = find_candidates(targets, level_shapes(preds), grid, anchor_t=settings.anchor_t)
    return finish(terms(preds, targets, positives, grid, settings), len(preds[0]), settings, positives, [])


def ota_loss(
    preds: Sequence[Tensor],
    targets: Tensor,
    grid: AnchorGrid,
    image_size: tuple[int, int],
    settings: LossSettings,
    *,
    fixed: bool = False,
) -> LossResult:
    """As anchor_loss, with the candidates reduced by the OTA matching. image_size = (height, width)."""
    candidates = find_candidates(targets, level_shapes(preds), grid, anchor_t=settings.anchor_t)
    positives = ota.match(preds, targets, candidates, grid, image_size, topk=10, fixed=fixed)
    return finish(terms(preds, targets, positives, grid, settings), len(preds[0]), settings, positives, [])


def aux_ota_loss(
    preds: Sequence[Tensor],
    targets: Tensor,
    grid: AnchorGrid,
    image_size: tuple[int, int],
    settings: LossSettings,
    *,
    fixed: bool = False,
) -> LossResult:
    """preds: the lead maps, then as many aux maps. Both matchings look at the lead predictions."""
    lead, aux = preds[: len(preds) // 2], preds[len(preds) // 2 :]
    positives = []
    for g in (0.5, 1.0):
        candidates = find_candidates(targets, level_shapes(lead), grid, anchor_t=settings.anchor_t, g=g)
        positives.append(ota.match(lead, targets, candidates, grid, image_size, topk=20, fixed=fixed))
    lead_terms = terms(lead, targets, positives[0], grid, settings)
    aux_terms = terms(aux, targets, positives[1], grid, settings)
    return finish(lead_terms + aux_terms * AUX_WEIGHT, len(lead[0]), settings, positives[0], positives[1])


def terms(
    preds: Sequence[Tensor],
    targets: Tensor,
    positives: Sequence[Candidate],
    grid: AnchorGrid,
    settings: LossSettings,
    ignored: Sequence[Tensor] | None = None,
    ignore_weight: float = 0.0,
) -> Terms:
    """Sum over the levels. ignored: per level, bool [B, A, rows, columns], see objectness_loss."""
    total = Terms(torch.zeros(()), torch.zeros(()), torch.zeros(()))
    for level, pred in enumerate(preds):
        box_loss, cls_loss = torch.zeros(()), torch.zeros(())
        obj_target = torch.zeros(pred.shape[:4])
        here = [positive for positive in positives if positive.level == level]
        if here:
            rows = pred[[p.image for p in here], [p.anchor for p in here], [p.gj for p in here], [p.gi for p in here]]
            ciou = complete_iou(predicted_boxes(rows, here, grid), target_boxes(targets, here, pred))
            box_loss = (1 - ciou).mean()
            for positive, score in zip(here, ciou.detach().clamp(min=0), strict=True):
                cell = (positive.image, positive.anchor, positive.gj, positive.gi)
                obj_target[cell] = (1 - settings.gr) + settings.gr * score
            if pred.shape[-1] - 5 > 1:
                expected = class_targets(targets, here, pred.shape[-1] - 5, settings.label_smoothing)
                for row, positive, score in zip(expected, here, ciou.detach().clamp(min=0), strict=True):
                    row[int(targets[positive.target, 1])] *= (1 - settings.cls_gr) + settings.cls_gr * score
                cls_loss = bce(rows[:, 5:], expected, settings.cls_pw, settings.fl_gamma)
        ignored_here = None if ignored is None else ignored[level]
        obj_loss = objectness_loss(pred[..., 4], obj_target, settings, ignored_here, ignore_weight)
        total = total + Terms(box_loss, obj_loss * balance(len(preds))[level], cls_loss)
    return total


def finish(
    total: Terms, batch: int, settings: LossSettings, positives: list[Candidate], aux_positives: list[Candidate]
) -> LossResult:
    """Apply the gains and the batch size."""
    box, obj, cls = total.box * settings.box, total.obj * settings.obj, total.cls * settings.cls
    loss = box + obj + cls
    return LossResult(loss * batch, torch.stack([box, obj, cls, loss]).detach(), positives, aux_positives)


def level_shapes(preds: Sequence[Tensor]) -> list[tuple[int, int]]:
    return [(pred.shape[2], pred.shape[3]) for pred in preds]


def balance(levels: int) -> list[float]:
    return [4.0, 1.0, 0.4] if levels == 3 else [4.0, 1.0, 0.25, 0.06, 0.02]


def predicted_boxes(rows: Tensor, positives: Sequence[Candidate], grid: AnchorGrid) -> Tensor:
    """[N, 4] in cells, the centre relative to the corner of the positive's cell."""
    anchors = torch.stack([grid.in_cells(p.level)[p.anchor] for p in positives])
    return torch.cat([rows[:, :2].sigmoid() * 2 - 0.5, (rows[:, 2:4].sigmoid() * 2) ** 2 * anchors], dim=1)


def target_boxes(targets: Tensor, positives: Sequence[Candidate], pred: Tensor) -> Tensor:
    """[N, 4] in cells, the centre relative to the corner of the positive's (clamped) cell."""
    shape = (pred.shape[2], pred.shape[3])
    boxes = torch.stack([to_cells(targets[p.target, 2:6], shape) for p in positives])
    cells = torch.tensor([[p.gi, p.gj, 0, 0] for p in positives])
    return boxes - cells


def class_targets(targets: Tensor, positives: Sequence[Candidate], nc: int, smoothing: float) -> Tensor:
    """[N, nc]: 1 - smoothing/2 at the class of the target, smoothing/2 elsewhere."""
    expected = torch.full((len(positives), nc), smoothing / 2)
    for row, positive in enumerate(positives):
        expected[row, int(targets[positive.target, 1])] = 1 - smoothing / 2
    return expected


def objectness_loss(
    logits: Tensor, target: Tensor, settings: LossSettings, ignored: Tensor | None, ignore_weight: float
) -> Tensor:
    """Mean over all cells; over those not ignored; or, with a weight, over all with the ignored ones scaled down."""
    if ignored is None:
        return bce(logits, target, settings.obj_pw, settings.fl_gamma)
    valid = ~ignored
    valid_loss, ignored_loss = torch.zeros(()), torch.zeros(())
    if valid.any():
        valid_loss = bce(logits[valid], target[valid], settings.obj_pw, settings.fl_gamma)
    if ignored.any():
        ignored_loss = bce(logits[ignored], target[ignored], settings.obj_pw, settings.fl_gamma)
    if ignore_weight == 0:
        return valid_loss
    return (valid_loss * valid.sum() + ignore_weight * ignored_loss * ignored.sum()) / ignored.numel()


def bce(logits: Tensor, target: Tensor, pos_weight: float, gamma: float, alpha: float = 0.25) -> Tensor:
    """Mean binary cross-entropy; with gamma > 0 each element is weighted as focal loss does."""
    weight = torch.tensor(pos_weight)
    loss = F.binary_cross_entropy_with_logits(logits, target, pos_weight=weight, reduction="none")
    if gamma > 0:
        p = logits.sigmoid()
        p_t = target * p + (1 - target) * (1 - p)
        alpha_t = target * alpha + (1 - target) * (1 - alpha)
        loss = loss * alpha_t * (1 - p_t) ** gamma
    return loss.mean()
