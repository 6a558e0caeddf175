"""SimOTA and the losses of YOLOX, in both published versions of the assignment.

A column is a cell: level by level, row by row. Ties are settled as in ota.py: the lower column, the first box.
The penalty is added in float32, where it swallows small differences of cost, so that ties are common behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.reference.boxes import corners, plain_iou
from tests.reference.ota import dynamic_k_match


@dataclass(frozen=True)
class SimOtaVersion:
    radius: float  # of the centre area, in strides
    penalty: float
    boxes_count: bool  # cells inside a box are candidates too, and only those in box and centre area go unpenalised


CURRENT = SimOtaVersion(radius=1.5, penalty=1e6, boxes_count=False)
VENDORED = SimOtaVersion(radius=2.5, penalty=1e5, boxes_count=True)


@dataclass(frozen=True)
class YoloxResult:
    loss: Tensor
    items: Tensor  # [6] total, 5 * iou, obj, cls, l1, foreground per box
    matches: list[dict[int, int]]  # per image: cell -> row of its labels


@dataclass(frozen=True)
class Cells:
    """All N cells of the levels: index (column, row) [N, 2] and stride [N, 1]."""

    index: Tensor
    stride: Tensor

    @property
    def centres(self) -> Tensor:
        return (self.index + 0.5) * self.stride


def yolox_loss(
    preds: Sequence[Tensor],
    labels: Tensor,
    strides: Sequence[int],
    *,
    use_l1: bool = False,
    version: SimOtaVersion = CURRENT,
) -> YoloxResult:
    """preds: per level raw [B, 5 + nc, rows, columns]; labels [B, M, 5] = class, cx, cy, w, h in pixels.

    Label rows without width or height are padding. use_l1 adds the L1 loss on the raw outputs.
    """
    cells = all_cells(preds, strides)
    raw_BNC = torch.cat([pred.flatten(2).transpose(1, 2) for pred in preds], dim=1).float()
    iou_sum, obj_sum, cls_sum, l1_sum = (torch.zeros(()) for _ in range(4))
    matches = []
    for raw, image_labels in zip(raw_BNC, labels, strict=True):
        rows = [row for row in range(len(image_labels)) if image_labels[row, 3:].min() > 0]
        match, match_iou = simota(raw, image_labels[rows], cells, version)
        boxes = decode(raw, cells)
        obj_target = torch.zeros(len(raw))
        for (cell, box), iou in zip(match.items(), match_iou, strict=True):
            label = image_labels[rows[box]]
            obj_target[cell] = 1
            iou_sum = iou_sum + 1 - overlap(boxes[cell], label[1:]) ** 2
            one_hot = F.one_hot(label[0].long(), raw.shape[1] - 5).float()
            cls_sum = cls_sum + F.binary_cross_entropy_with_logits(raw[cell, 5:], one_hot * iou, reduction="sum")
            if use_l1:
                l1_sum = l1_sum + (raw[cell, :4] - encode(label[1:], cells, cell)).abs().sum()
        obj_sum = obj_sum + F.binary_cross_entropy_with_logits(raw[:, 4], obj_target, reduction="sum")
        matches.append({cell: rows[box] for cell, box in match.items()})

    foreground = max(sum(len(match) for match in matches), 1)
    box_count = max(int((labels[..., 3:].amin(-1) > 0).sum()), 1)
    iou, obj, cls, l1 = (part / foreground for part in (5.0 * iou_sum, obj_sum, cls_sum, l1_sum))
    loss = iou + obj + cls + l1
    items = torch.stack([loss, iou, obj, cls, l1, torch.tensor(foreground / box_count)]).detach()
    return YoloxResult(loss, items, matches)


@torch.no_grad()
def simota(
    raw: Tensor, labels: Tensor, cells: Cells, version: SimOtaVersion = CURRENT
) -> tuple[dict[int, int], list[Tensor]]:
    """Of one image: cell -> row of labels, and the IoU of each such pair. raw [N, 5 + nc], labels [G, 5]."""
    columns, cost_GK, iou_GK = simota_costs(raw, labels, cells, version)
    if not columns:
        return {}, []
    match, match_iou = {}, []
    for column, box in enumerate(dynamic_k_match(cost_GK, iou_GK, topk=10)):
        if box is not None:
            match[columns[column]] = box
            match_iou.append(iou_GK[box, column])
    return match, match_iou


@torch.no_grad()
def simota_costs(raw: Tensor, labels: Tensor, cells: Cells, version: SimOtaVersion) -> tuple[list[int], Tensor, Tensor]:
    """Candidate cells (K of N) of one image, and [G, K] cost and IoU."""
    centred = [near_centre(label[1:], cells, version.radius) for label in labels]
    boxed = [inside_box(label[1:], cells) for label in labels]
    if version.boxes_count:
        eligible = [near | inside for near, inside in zip(centred, boxed, strict=True)]
        preferred = [near & inside for near, inside in zip(centred, boxed, strict=True)]
    else:
        eligible = preferred = centred
    columns = [cell for cell in range(len(raw)) if any(bool(flags[cell]) for flags in eligible)]

    boxes = decode(raw, cells)[columns]
    y = (raw[columns, 5:].sigmoid() * raw[columns, 4:5].sigmoid()).sqrt()
    costs, ious = [torch.zeros(0, len(columns))], [torch.zeros(0, len(columns))]
    for label, free in zip(labels, preferred, strict=True):
        one_hot = F.one_hot(label[0].long(), raw.shape[1] - 5).float().expand_as(y)
        class_cost = F.binary_cross_entropy(y, one_hot, reduction="none").sum(-1)
        iou = plain_iou(label[1:], boxes)
        penalty = version.penalty * (~free[columns]).float()
        costs.append((class_cost + 3.0 * -torch.log(iou + 1e-8) + penalty)[None])
        ious.append(iou[None])
    return columns, torch.cat(costs), torch.cat(ious)


def all_cells(preds: Sequence[Tensor], strides: Sequence[int]) -> Cells:
    index, cell_strides = [], []
    for pred, stride in zip(preds, strides, strict=True):
        for gj in range(pred.shape[2]):
            for gi in range(pred.shape[3]):
                index.append([gi, gj])
                cell_strides.append([stride])
    return Cells(torch.tensor(index, dtype=torch.float32), torch.tensor(cell_strides, dtype=torch.float32))


def decode(raw: Tensor, cells: Cells) -> Tensor:
    """[N, 4] boxes (cx, cy, w, h) in pixels."""
    return torch.cat([(raw[:, :2] + cells.index) * cells.stride, raw[:, 2:4].exp() * cells.stride], dim=1)


def encode(box: Tensor, cells: Cells, cell: int) -> Tensor:
    """What the raw outputs of a cell should be for a box in pixels: the target of the L1 loss."""
    stride = cells.stride[cell]
    return torch.cat([box[:2] / stride - cells.index[cell], torch.log(box[2:] / stride + 1e-8)])


def near_centre(box: Tensor, cells: Cells, radius: float) -> Tensor:
    """[N]: is the centre of the cell strictly within `radius` of its strides of the box centre, on both axes?"""
    reach = radius * cells.stride
    to_sides = torch.cat([cells.centres - (box[:2] - reach), (box[:2] + reach) - cells.centres], dim=1)
    return to_sides.amin(dim=1) > 0


def inside_box(box: Tensor, cells: Cells) -> Tensor:
    """[N]: is the centre of the cell strictly inside the box?"""
    top_left, bottom_right = corners(box)
    return torch.cat([cells.centres - top_left, bottom_right - cells.centres], dim=1).amin(dim=1) > 0


def overlap(box: Tensor, target: Tensor) -> Tensor:
    """IoU with gradient; the areas come from w * h."""
    top_left, bottom_right = corners(box)
    target_top_left, target_bottom_right = corners(target)
    sides = torch.minimum(bottom_right, target_bottom_right) - torch.maximum(top_left, target_top_left)
    inter = sides.clamp(min=0).prod()
    return inter / (box[2:].prod() + target[2:].prod() - inter + 1e-16)
