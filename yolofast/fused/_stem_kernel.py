"""The kernels of `stem`, in a file of its own because importing it needs Triton."""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def _patches(
    x_ptr, place, places, height, width, rows, columns, stride,
    K: tl.constexpr, C: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """`[places, NUMBERS]`: the K × K × C numbers around each place, 0 beyond the border and behind them."""
    number = tl.arange(0, NUMBERS)
    down, right, channel = number // (K * C), number // C % K, number % C
    image, rest = place // (rows * columns), place % (rows * columns)
    y = (rest // columns * stride - K // 2)[:, None] + down[None, :]
    x = (rest % columns * stride - K // 2)[:, None] + right[None, :]
    there = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (place < places)[:, None]
    there = there & (number < K * K * C)[None, :]
    at = ((image[:, None] * height + y) * width + x) * C + channel[None, :]
    return tl.load(x_ptr + at, there, 0.0)


@triton.jit
def stem_kernel(
    x_ptr, weight_ptr, y_ptr, places, height, width, rows, columns, stride,
    K: tl.constexpr, C: tl.constexpr, OUT: tl.constexpr, NUMBERS: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    patches = _patches(x_ptr, place, places, height, width, rows, columns, stride, K, C, NUMBERS)
    number, output = tl.arange(0, NUMBERS), tl.arange(0, BLOCK_OUT)
    mask = (number < K * K * C)[:, None] & (output < OUT)[None, :]
    weight = tl.load(weight_ptr + output[None, :] * (K * K * C) + number[:, None], mask, 0.0)
    y = tl.dot(patches, weight)
    at = y_ptr + place[:, None] * OUT + output[None, :]
    tl.store(at, y.to(y_ptr.dtype.element_ty), (place < places)[:, None] & (output < OUT)[None, :])


@triton.jit
def stem_weight_kernel(
    x_ptr, dy_ptr, parts_ptr, places, height, width, rows, columns, stride, each,
    K: tl.constexpr, C: tl.constexpr, OUT: tl.constexpr, NUMBERS: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_OUT: tl.constexpr, TURNS: tl.constexpr,
):  # fmt: skip
    """The gradient of the weights from a run of places; the sum over all runs is the whole."""
    number, output = tl.arange(0, NUMBERS), tl.arange(0, BLOCK_OUT)
    first = tl.program_id(0).to(tl.int64) * each
    total = tl.zeros([NUMBERS, BLOCK_OUT], tl.float32)
    for turn in range(TURNS):
        place = first + turn * BLOCK + tl.arange(0, BLOCK)
        patches = _patches(x_ptr, place, places, height, width, rows, columns, stride, K, C, NUMBERS)
        mask = (place < places)[:, None] & (output < OUT)[None, :]
        dy = tl.load(dy_ptr + place[:, None] * OUT + output[None, :], mask, 0.0)
        total = tl.dot(tl.trans(patches), dy, total)
    at = parts_ptr + (tl.program_id(0) * OUT + output[None, :]) * (K * K * C) + number[:, None]
    tl.store(at, total, (number < K * K * C)[:, None] & (output < OUT)[None, :])
