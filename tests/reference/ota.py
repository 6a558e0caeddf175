"""OTA matching of YOLOv7, image by image with all levels pooled.

Ties are settled as golden/README.md says: among equal costs the lower column wins, among equal boxes the first row.

A prediction saturated at y = 0 or 1 has no finite logit, and the published cost is infinite or NaN there. Here it is
then -log y, or -log(1 - y), with the logarithm cut off at -100 as torch does in binary_cross_entropy: the same function
wherever the published form is finite, and always finite itself.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.reference.boxes import plain_iou
from tests.reference.candidates import AnchorGrid, Candidate


def match(
    preds: Sequence[Tensor],
    targets: Tensor,
    candidates: Sequence[Candidate],
    grid: AnchorGrid,
    image_size: tuple[int, int],
    *,
    topk: int = 10,
    fixed: bool = False,
) -> list[Candidate]:
    """The candidates that stay, each now carrying the target row it was matched to.

    They come level by level, then image by image, then in column order.

    preds: per level [B, A, rows, columns, 5 + nc]; image_size = (height, width) in pixels. fixed=False scales boxes by
    the image height on both axes, as published; fixed=True uses the width for x and w.
    """
    matches = []
    for image in range(preds[0].shape[0]):
        columns = [candidate for candidate in candidates if candidate.image == image]
        rows = [row for row in range(len(targets)) if int(targets[row, 0]) == image]
        if not columns:
            continue
        cost_GN, iou_GN = image_costs(preds, targets[rows], columns, grid, image_size, fixed=fixed)
        for column, box in enumerate(dynamic_k_match(cost_GN, iou_GN, topk)):
            if box is not None:
                matches.append(columns[column]._replace(target=rows[box]))
    return sorted(matches, key=lambda match: match.level)  # stable: column order within a level is kept


@torch.no_grad()
def image_costs(
    preds: Sequence[Tensor],
    targets: Tensor,
    columns: Sequence[Candidate],
    grid: AnchorGrid,
    image_size: tuple[int, int],
    *,
    fixed: bool = False,
) -> tuple[Tensor, Tensor]:
    """Cost and IoU of one image, [G, N] each: its G boxes against its N candidate columns.

    Each distinct cell is computed once and then copied to its columns, so that duplicates cost exactly the same.
    """
    cells = list(dict.fromkeys(column._replace(target=-1) for column in columns))
    position = {cell: index for index, cell in enumerate(cells)}
    cell_of_column = [position[column._replace(target=-1)] for column in columns]
    predictions = torch.stack([preds[c.level][c.image, c.anchor, c.gj, c.gi] for c in cells]).float()
    boxes_px = torch.stack([decode(p, c, grid) for p, c in zip(predictions, cells, strict=True)])

    height, width = image_size
    scale = torch.tensor([width, height, width, height] if fixed else [height] * 4, dtype=torch.float32)
    costs, ious = [], []
    for target in targets:
        iou = plain_iou(target[2:6] * scale, boxes_px)
        cost = class_cost(predictions, int(target[1])) + 3.0 * -torch.log(iou + 1e-8)
        costs.append(cost[cell_of_column])
        ious.append(iou[cell_of_column])
    return torch.stack(costs), torch.stack(ious)


def decode(prediction: Tensor, cell: Candidate, grid: AnchorGrid) -> Tensor:
    """(cx, cy, w, h) in pixels of one raw prediction."""
    stride = grid.strides[cell.level]
    xy = (prediction[:2].sigmoid() * 2 - 0.5 + torch.tensor([cell.gi, cell.gj])) * stride
    wh = (prediction[2:4].sigmoid() * 2) ** 2 * grid.in_cells(cell.level)[cell.anchor] * stride
    return torch.cat([xy, wh])


def class_cost(predictions: Tensor, cls: int) -> Tensor:
    """[N, 5 + nc] to [N]: BCE-with-logits of logit(y), y = sqrt(sigma(cls) * sigma(obj)), against a one-hot.

    Elements without a finite logit are taken by the clamped form instead.
    """
    y = (predictions[:, 5:].sigmoid() * predictions[:, 4:5].sigmoid()).sqrt()
    one_hot = torch.zeros_like(y)
    one_hot[:, cls] = 1
    published = F.binary_cross_entropy_with_logits(torch.log(y / (1 - y)), one_hot, reduction="none")
    clamped = -torch.log(torch.where(one_hot == 1, y, 1 - y)).clamp(min=-100)
    return torch.where(published.isfinite(), published, clamped).sum(-1)


def dynamic_k_match(cost_GN: Tensor, iou_GN: Tensor, topk: int) -> list[int | None]:
    """For each column the box it is matched to, or None."""
    assert not cost_GN.isnan().any()
    boxes, columns = cost_GN.shape
    cost = cost_GN.tolist()
    chosen_by: list[list[int]] = [[] for _ in range(columns)]
    for box in range(boxes):
        total = torch.zeros(())
        for value in iou_GN[box].sort(descending=True).values[:topk]:  # one by one: sum() adds in an order of its own
            total = total + value
        k = max(1, int(total))
        by_cost = sorted(range(columns), key=lambda column: (cost[box][column], column))
        for column in by_cost[:k]:
            chosen_by[column].append(box)

    matched: list[int | None] = []
    for column, choosers in enumerate(chosen_by):
        if len(choosers) <= 1:
            matched.append(choosers[0] if choosers else None)
        else:  # the cheapest of all boxes, even one that did not choose this column
            matched.append(min(range(boxes), key=lambda box: (cost[box][column], box)))
    return matched
