"""The kernel of `dynamic_k`, in a file of its own because importing it needs Triton."""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def choose_kernel(cost_ptr, iou_ptr, chosen_ptr, columns, TOPK: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns

    # How many: the sum of the best overlaps, taken one by one. Masked places are below every overlap.
    iou = tl.load(iou_ptr + row * columns + column, mask=inside, other=-1.0)
    total = 0.0
    for _ in range(TOPK):
        best = tl.max(iou, axis=0)
        total += best
        first = tl.min(tl.where(iou == best, column, BLOCK), axis=0)
        iou = tl.where(column == first, -1.0, iou)
    k = tl.maximum(total.to(tl.int32), 1)

    # Which: the cheapest, the lower column among equals; infinite cost is no candidate.
    cost = tl.load(cost_ptr + row * columns + column, mask=inside, other=float("inf"))
    for rank in range(TOPK):
        cheapest = tl.min(cost, axis=0)
        first = tl.min(tl.where(cost == cheapest, column, BLOCK), axis=0)
        taken = (rank < k) & (cheapest < float("inf"))
        tl.store(chosen_ptr + row * TOPK + rank, tl.where(taken, first, columns).to(tl.int64))
        cost = tl.where(column == first, float("inf"), cost)
