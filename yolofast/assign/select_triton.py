"""Dynamic-k selection as one Triton kernel: a program reads one box's row of overlaps and costs once and picks from it.

`choose_columns_torch` is the same in plain torch, and the reference this is tested against (TRITON_INTERPRET=1 on a CPU).
There the rows are packed into 64-bit keys and sorted partially, several passes over memory; here a row stays in registers.
"""

import importlib.util
import os

import torch
from torch import Tensor

HAS_TRITON = importlib.util.find_spec("triton") is not None
# A row lives in the registers of one program; beyond this it would spill, and plain torch takes over.
_LONGEST_ROW = 32_768


def can_run(cost_BGA: Tensor) -> bool:
    if not HAS_TRITON or cost_BGA.shape[-1] > _LONGEST_ROW:
        return False
    return cost_BGA.is_cuda or (cost_BGA.device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1")


def choose_columns(cost_BGA: Tensor, iou_BGA: Tensor, topk: int) -> Tensor:
    """As `choose_columns_torch`."""
    from yolofast.assign._select_kernel import choose_kernel

    batch, boxes, columns = cost_BGA.shape
    topk = min(topk, columns)
    cost, iou = cost_BGA.contiguous(), iou_BGA.contiguous()
    chosen = torch.empty(batch, boxes, topk, dtype=torch.int64, device=cost.device)
    block = max(32, 1 << (columns - 1).bit_length())
    choose_kernel[(batch * boxes,)](cost, iou, chosen, columns, TOPK=topk, BLOCK=block, num_warps=max(1, min(16, block // 512)))
    return chosen
