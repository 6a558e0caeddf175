"""Dynamic-k selection as one Triton kernel: a program reads one box's row of overlaps and costs once and picks from it.

`choose_columns_torch` is the same in plain torch, which this is tested against (on a CPU with TRITON_INTERPRET=1).
There rows are packed into 64-bit keys and partially sorted, several passes over memory; here a row stays in registers.
"""

import torch
from torch import Tensor

try:
    from yolofast.assign._select_kernel import choose_kernel
except ImportError:  # Triton is not there on every platform
    choose_kernel = None

# A row lives in the registers of one program; beyond this it would spill, and plain torch takes over.
_LONGEST_ROW = 32_768


def can_run(cost_BGA: Tensor) -> bool:
    return choose_kernel is not None and cost_BGA.is_cuda and cost_BGA.shape[-1] <= _LONGEST_ROW


def choose_columns(cost_BGA: Tensor, iou_BGA: Tensor, topk: int) -> Tensor:
    """As `choose_columns_torch`."""
    batch, boxes, columns = cost_BGA.shape
    topk = min(topk, columns)
    cost, iou = cost_BGA.contiguous(), iou_BGA.contiguous()
    chosen = torch.empty(batch, boxes, topk, dtype=torch.int64, device=cost.device)
    block = max(32, 1 << (columns - 1).bit_length())
    warps = max(1, min(16, block // 512))
    choose_kernel[(batch * boxes,)](cost, iou, chosen, columns, TOPK=topk, BLOCK=block, num_warps=warps)
    return chosen
