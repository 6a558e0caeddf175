"""Dynamic-k selection, shared by OTA and SimOTA: each box takes its k cheapest columns, each column one box.

k is the number of good overlaps a box has (the sum of its best IoUs). Among equal costs the lower column wins, among
equal boxes the first, so the result is the same on every device and in every run. Infinite cost is no candidate.

On a GPU it is one Triton kernel: a program reads one box's row of overlaps and costs once and picks from it. Plain
torch packs rows into 64-bit keys and sorts them partially, in several passes over memory. Both give the same.
"""

import torch
from torch import Tensor

from yolofast.raw_maps import own_place

try:
    from yolofast.assign._select_kernel import choose_kernel
except ImportError:  # Triton is not there on every platform
    choose_kernel = None

# A row lives in the registers of one program; beyond this it would spill, and plain torch takes over.
_LONGEST_ROW = 32_768
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


def choose_columns(cost_BGA: Tensor, iou_BGA: Tensor, topk: int) -> Tensor:
    """`[B, G, min(topk, A)]`: the columns each box takes, in order of cost; A where it takes fewer."""
    if choose_kernel is not None and cost_BGA.is_cuda and cost_BGA.shape[-1] <= _LONGEST_ROW:
        return choose_columns_triton(cost_BGA, iou_BGA, topk)
    return choose_columns_torch(cost_BGA, iou_BGA, topk)


def choose_columns_triton(cost_BGA: Tensor, iou_BGA: Tensor, topk: int) -> Tensor:
    batch, boxes, columns = cost_BGA.shape
    topk = min(topk, columns)
    cost, iou = cost_BGA.contiguous(), iou_BGA.contiguous()
    chosen = torch.empty(batch, boxes, topk, dtype=torch.int64, device=cost.device)
    block = max(32, 1 << (columns - 1).bit_length())
    warps = max(1, min(16, block // 512))
    choose_kernel[(batch * boxes,)](cost, iou, chosen, columns, TOPK=topk, BLOCK=block, num_warps=warps)
    return chosen


def choose_columns_torch(cost_BGA: Tensor, iou_BGA: Tensor, topk: int) -> Tensor:
    columns = cost_BGA.shape[-1]
    topk = min(topk, columns)
    best = iou_BGA.topk(topk, dim=-1).values.unbind(-1)
    total_BG = best[0]
    for value in best[1:]:  # in the order the kernel adds them: a sum close to a whole number must not depend on it
        total_BG = total_BG + value
    k_BG1 = total_BG.long().clamp(min=1)[..., None]
    # One 64-bit number per pair: the cost's bits, made to order like the cost, above the column. No two are equal.
    bits = (cost_BGA + 0.0).view(torch.int32)
    key = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long() << 32 | torch.arange(columns, device=bits.device)
    chosen = key.topk(topk, dim=-1, largest=False).indices
    possible = cost_BGA.gather(-1, chosen) < torch.inf
    rank = torch.arange(topk, device=chosen.device)
    return torch.where(possible & (rank < k_BG1), chosen, columns)


def settle_conflicts(chosen_BGK: Tensor, cost_BGA: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Slots `[B, G · K]`: the column, the box that gets it, and whether the slot is used.

    A column chosen by several boxes goes to the cheapest of all boxes, even one that did not choose it, and only once.
    """
    batch, boxes, topk = chosen_BGK.shape
    columns = cost_BGA.shape[-1]
    slots = boxes * topk
    slot = torch.arange(slots, device=chosen_BGK.device, dtype=torch.int32).expand(batch, -1)
    column_BS = chosen_BGK.flatten(1)
    column_BS = own_place(column_BS, column_BS < columns, columns)
    times = slot.new_zeros(batch, columns + slots).scatter_add_(1, column_BS, torch.ones_like(slot))
    first = slot.new_full((batch, columns + slots), slots).scatter_reduce_(1, column_BS, slot, "amin")
    used = (column_BS < columns) & (first.gather(1, column_BS) == slot)
    column_BS = column_BS.clamp(max=columns - 1)
    cheapest = cost_BGA.argmin(1).gather(1, column_BS)
    box = torch.where(times.gather(1, column_BS) > 1, cheapest, (slot // topk).long())
    return column_BS, box, used


def last_of_each_cell(cell_BS: Tensor, column_BS: Tensor, used: Tensor, cells: int) -> Tensor:
    """Of the used slots that share a cell, the one with the highest column."""
    place = own_place(cell_BS, used, cells)
    highest = column_BS.new_full((len(cell_BS), cells + cell_BS.shape[1]), -1)
    highest.scatter_reduce_(1, place, column_BS, "amax")
    return used & (highest.gather(1, place) == column_BS)
