"""Greedy suppression as one Triton kernel: a program takes an image's candidates block by block.

`greedy.suppress_torch` is the same in plain torch, which this is tested against (on a CPU with TRITON_INTERPRET=1).
Overlaps are computed as there, operation by operation: divided exactly, and no product fused with a sum, so that a box
on the edge of the threshold has the same fate.
"""

import torch
from torch import Tensor

from yolofast.evaluate.candidates import Candidates

try:
    from yolofast.evaluate._greedy_kernel import greedy_kernel
except ImportError:  # Triton is not there on every platform
    greedy_kernel = None

# 16 overlaps per thread: as many as fit into registers.
_BLOCK, _WARPS = 64, 8


def can_run(boxes: Tensor) -> bool:
    return greedy_kernel is not None and boxes.is_cuda


def suppress(candidates: Candidates, threshold: float, *, agnostic: bool, most: int) -> tuple[Tensor, Tensor]:
    """As `suppress_torch`."""
    boxes, labels = candidates.boxes.contiguous(), candidates.labels.contiguous()
    batch, columns = labels.shape
    kept_BS = torch.zeros((batch, most), dtype=torch.long, device=boxes.device)
    count_B = torch.zeros_like(candidates.counts)
    with torch.cuda.device_of(boxes):  # type: ignore[no-untyped-call]
        greedy_kernel[(batch,)](
            boxes, labels, candidates.counts, kept_BS, count_B, columns, most, threshold,
            AGNOSTIC=agnostic, BLOCK=_BLOCK, num_warps=_WARPS, enable_fp_fusion=False,
        )  # fmt: skip
    return kept_BS, count_B
