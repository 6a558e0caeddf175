"""Adam's step for one long tensor, as `Adam.step` has it in plain torch, without passes over memory between its parts.
In a file of its own because importing it needs Triton.
"""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def adam_kernel(
    param_ptr, grad_ptr, mean_ptr, square_ptr, momentum_ptr, rate_ptr, square_share_ptr, count,
    BETA2: tl.constexpr, EPSILON: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`rate` is divided by the share of `mean` that is there yet."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    momentum, grad = tl.load(momentum_ptr), tl.load(grad_ptr + place, inside, 0.0)
    mean = tl.load(mean_ptr + place, inside, 0.0) * momentum + grad * (1 - momentum)
    square = tl.load(square_ptr + place, inside, 0.0) * BETA2 + grad * grad * (1 - BETA2)
    tl.store(mean_ptr + place, mean, inside)
    tl.store(square_ptr + place, square, inside)
    move = mean / (tl.sqrt(square) / tl.load(square_share_ptr) + EPSILON) * tl.load(rate_ptr)
    tl.store(param_ptr + place, tl.load(param_ptr + place, inside, 0.0) - move, inside)
