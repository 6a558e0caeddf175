"""One kernel for all tensors of an update, wherever they lie: it reads their addresses from a table.
In a file of its own because importing it needs Triton.
"""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def sgd_kernel(
    tensor_ptr, start_ptr, count_ptr, weights_ptr, velocities_ptr, row_ptr, gradients_ptr, rate_ptr, momentum_ptr,
    decay, BLOCK: tl.constexpr,
):  # fmt: skip
    """A program has BLOCK numbers of one tensor. Gradients are side by side; `row` says where a tensor's begin."""
    program = tl.program_id(0)
    tensor, start = tl.load(tensor_ptr + program), tl.load(start_ptr + program)
    place = start + tl.arange(0, BLOCK)
    inside = place < tl.load(count_ptr + tensor)
    weights = tl.load(weights_ptr + tensor).to(tl.pointer_type(tl.float32)) + place
    velocities = tl.load(velocities_ptr + tensor).to(tl.pointer_type(tl.float32)) + place
    momentum, weight = tl.load(momentum_ptr), tl.load(weights, inside, 0.0)
    gradient = tl.load(gradients_ptr + tl.load(row_ptr + tensor) + place, inside, 0.0) + decay * weight
    velocity = tl.load(velocities, inside, 0.0) * momentum + gradient
    tl.store(velocities, velocity, inside)
    # Nesterov: the gradient plus what momentum will do with the velocity.
    tl.store(weights, weight - tl.load(rate_ptr) * (velocity * momentum + gradient), inside)


@triton.jit
def average_kernel(tensor_ptr, start_ptr, count_ptr, trained_ptr, average_ptr, share_ptr, BLOCK: tl.constexpr):
    """average += share · (trained - average)"""
    program = tl.program_id(0)
    tensor, start = tl.load(tensor_ptr + program), tl.load(start_ptr + program)
    place = start + tl.arange(0, BLOCK)
    inside = place < tl.load(count_ptr + tensor)
    trained = tl.load(trained_ptr + tensor).to(tl.pointer_type(tl.float32)) + place
    averages = tl.load(average_ptr + tensor).to(tl.pointer_type(tl.float32)) + place
    average = tl.load(averages, inside, 0.0)
    tl.store(averages, average + tl.load(share_ptr) * (tl.load(trained, inside, 0.0) - average), inside)
