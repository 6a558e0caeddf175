"""OTA as published trainers run it: a loop over images, a loop over boxes, one device sync per box.

Written for timing beside ours; it is the same computation (tests/reference holds the literal, slower loops).
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from yolofast.boxes import ciou_cxcywh, cxcywh_to_xyxy, iou, pairwise

_BALANCE = (4.0, 1.0, 0.4)


def loop_loss(
    raw: Sequence[Tensor],
    rows: Tensor,
    anchors_px: Tensor,
    strides: Sequence[int],
    gains: Sequence[float],
    ota: bool,
) -> Tensor:
    """`rows`: image class cx cy w h. `gains`: box, obj, cls as applied. Returns the total, times the batch size."""
    found = [_candidates(raw_map, rows, anchors_px[i] / strides[i]) for i, raw_map in enumerate(raw)]
    if ota:
        found = _match(raw, rows, found, anchors_px, strides)
    box = cls = obj = raw[0].new_zeros(())
    for level, (raw_map, (image, anchor, y, x, target)) in enumerate(zip(raw, found, strict=True)):
        objectness = torch.zeros_like(raw_map[..., 0])
        if len(image):
            chosen = raw_map[image, anchor, y, x]
            size = torch.tensor([raw_map.shape[3], raw_map.shape[2]] * 2, device=rows.device)
            truth = rows[target, 2:] * size
            truth = torch.cat((truth[:, :2] - torch.stack((x, y), 1), truth[:, 2:]), 1)
            sides = chosen[:, :4].sigmoid() * 2
            anchors = (anchors_px[level] / strides[level])[anchor]
            predicted = torch.cat((sides[:, :2] - 0.5, sides[:, 2:] ** 2 * anchors), 1)
            overlap = ciou_cxcywh(predicted, truth)
            box = box + (1 - overlap).mean()
            objectness[image, anchor, y, x] = overlap.detach().clamp(0)
            classes = F.one_hot(rows[target, 1].long(), raw_map.shape[-1] - 5).float()
            cls = cls + F.binary_cross_entropy_with_logits(chosen[:, 5:], classes)
        obj = obj + _BALANCE[level] * F.binary_cross_entropy_with_logits(raw_map[..., 4], objectness)
    return (box * gains[0] + obj * gains[1] + cls * gains[2]) * len(raw[0])


def _candidates(raw_map: Tensor, rows: Tensor, anchors: Tensor) -> tuple[Tensor, ...]:
    height, width = raw_map.shape[2:4]
    boxes = rows[:, 2:] * torch.tensor([width, height] * 2, device=rows.device)
    ratio = boxes[None, :, 2:] / anchors[:, None]
    fits = torch.maximum(ratio, 1 / ratio).amax(-1) < 4.0
    anchor, target = fits.nonzero(as_tuple=True)
    centre = boxes[target, :2]
    rest = torch.tensor([width, height], device=rows.device) - centre
    left, up = ((centre % 1 < 0.5) & (centre > 1)).T
    right, down = ((rest % 1 < 0.5) & (rest > 1)).T
    near = torch.stack((torch.ones_like(left), left, up, right, down))
    offset = torch.tensor([[0, 0], [0.5, 0], [0, 0.5], [-0.5, 0], [0, -0.5]], device=rows.device)
    cell = (centre[None] - offset[:, None])[near].long()
    anchor, target = anchor.expand(5, -1)[near], target.expand(5, -1)[near]
    return rows[target, 0].long(), anchor, cell[:, 1].clamp(0, height - 1), cell[:, 0].clamp(0, width - 1), target


def _match(
    raw: Sequence[Tensor], rows: Tensor, found: list[tuple[Tensor, ...]], anchors_px: Tensor, strides: Sequence[int]
) -> list[tuple[Tensor, ...]]:
    size = raw[0].shape[2] * strides[0]
    kept: list[list[tuple[Tensor, ...]]] = [[] for _ in raw]
    for image in range(len(raw[0])):
        own = (rows[:, 0] == image).nonzero()[:, 0]
        if not len(own):
            continue
        level_of, columns, boxes, scores = [], [], [], []
        for level, (of, anchor, y, x, _) in enumerate(found):
            here = of == image
            anchor, y, x = anchor[here], y[here], x[here]
            row = raw[level][image, anchor, y, x].float()
            sides = row[:, :4].sigmoid() * 2
            centre = (sides[:, :2] - 0.5 + torch.stack((x, y), 1)) * strides[level]
            boxes.append(torch.cat((centre, sides[:, 2:] ** 2 * anchors_px[level][anchor]), 1))
            scores.append(row[:, 4:])
            columns.append(torch.stack((torch.full_like(x, image), anchor, y, x)))
            level_of.append(torch.full_like(x, level))
        column, level_index = torch.cat(columns, 1), torch.cat(level_of)
        if not len(level_index):
            continue
        overlap = pairwise(iou, cxcywh_to_xyxy(rows[own, 2:] * size), cxcywh_to_xyxy(torch.cat(boxes)))
        score = torch.cat(scores)
        y_score = (score[:, 1:].sigmoid() * score[:, :1].sigmoid()).sqrt()
        one_hot = F.one_hot(rows[own, 1].long(), score.shape[1] - 1).float()
        logit = torch.log(y_score / (1 - y_score))[None].expand(len(own), -1, -1)
        expected = one_hot[:, None].expand_as(logit)
        cost = F.binary_cross_entropy_with_logits(logit, expected, reduction="none").sum(-1)
        cost = cost - 3.0 * torch.log(overlap + 1e-8)
        count = overlap.topk(min(10, overlap.shape[1]), 1).values.sum(1).int().clamp(min=1)
        matching = torch.zeros_like(cost)
        for box in range(len(own)):
            matching[box, cost[box].topk(count[box].item(), largest=False).indices] = 1
        contested = matching.sum(0) > 1
        if contested.any():
            best = cost[:, contested].argmin(0)
            matching[:, contested] = 0
            matching[best, contested.nonzero()[:, 0]] = 1
        chosen = matching.sum(0) > 0
        target = own[matching[:, chosen].argmax(0)]
        for level in range(len(raw)):
            here = level_index[chosen] == level
            kept[level].append((*column[:, chosen][:, here], target[here]))
    empty = tuple(rows.new_zeros(0, dtype=torch.long) for _ in range(5))
    return [tuple(map(torch.cat, zip(*parts, strict=True))) if parts else empty for parts in kept]
