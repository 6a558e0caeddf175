"""The kernels of `pool`, in a file of its own because importing it needs Triton."""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def _corner(place, height, width):
    """The first row of the four that a place is made of; maps are matrices with a row for each place."""
    image, rest = place // (height * width), place % (height * width)
    return (image * 2 * height + rest // width * 2) * (2 * width) + rest % width * 2


@triton.jit
def pool_kernel(
    x_ptr, y_ptr, which_ptr, places, height, width, stride,
    C: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr, REMEMBERS: tl.constexpr,
):  # fmt: skip
    """The largest of each 2 × 2, the first of equals, and, if it remembers, which it was."""
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (place < places)[:, None] & (channel < C)[None, :]
    source = x_ptr + _corner(place, height, width)[:, None] * stride + channel[None, :]
    best = tl.load(source, mask, 0.0)
    which = tl.zeros([ROWS, BLOCK_C], tl.int32)
    for turn in tl.static_range(1, 4):
        other = tl.load(source + ((turn // 2) * 2 * width + turn % 2) * stride, mask, 0.0)
        larger = (other > best) | (other != other)
        best = tl.where(larger, other, best)
        which = tl.where(larger, turn, which)
    at = place[:, None] * C + channel[None, :]
    tl.store(y_ptr + at, best, mask)
    if REMEMBERS:
        tl.store(which_ptr + at, which.to(tl.uint8), mask)


@triton.jit
def pool_back_kernel(
    dy_ptr, which_ptr, dx_ptr, places, height, width, stride, C: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr
):
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (place < places)[:, None] & (channel < C)[None, :]
    dy = tl.load(dy_ptr + place[:, None] * stride + channel[None, :], mask, 0.0)
    which = tl.load(which_ptr + place[:, None] * C + channel[None, :], mask, 0).to(tl.int32)
    to = dx_ptr + _corner(place, height, width)[:, None] * C + channel[None, :]
    for turn in tl.static_range(4):
        tl.store(to + ((turn // 2) * 2 * width + turn % 2) * C, tl.where(which == turn, dy, 0.0), mask)


@triton.jit
def window_kernel(
    x_ptr, y_ptr, which_ptr, places, height, width, stride,
    K: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr, REMEMBERS: tl.constexpr,
):  # fmt: skip
    """The largest of the K × K around each place, the first of equals, and, if it remembers, which it was."""
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (place < places)[:, None] & (channel < C)[None, :]
    y, x = place // width % height, place % width
    source = x_ptr + place[:, None] * stride + channel[None, :]
    best = tl.full([ROWS, BLOCK_C], float("-inf"), tl.float32)
    which = tl.zeros([ROWS, BLOCK_C], tl.int32)
    for turn in tl.static_range(K * K):
        down = turn // K - K // 2
        right = turn % K - K // 2
        there = (y + down >= 0) & (y + down < height) & (x + right >= 0) & (x + right < width)
        there = mask & there[:, None]
        other = tl.load(source + (down * width + right) * stride, there, float("-inf")).to(tl.float32)
        larger = (other > best) | (other != other)
        best = tl.where(larger, other, best)
        which = tl.where(larger, turn, which)
    at = place[:, None] * C + channel[None, :]
    tl.store(y_ptr + at, best.to(y_ptr.dtype.element_ty), mask)
    if REMEMBERS:
        tl.store(which_ptr + at, which.to(tl.uint8), mask)


@triton.jit
def window_back_kernel(
    dy_ptr, which_ptr, dx_ptr, places, height, width, stride,
    K: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Each place asks the windows it is in whether it was their largest."""
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (place < places)[:, None] & (channel < C)[None, :]
    y, x = place // width % height, place % width
    total = tl.zeros([ROWS, BLOCK_C], tl.float32)
    for turn in tl.static_range(K * K):
        down = K // 2 - turn // K
        right = K // 2 - turn % K
        there = (y + down >= 0) & (y + down < height) & (x + right >= 0) & (x + right < width)
        there = mask & there[:, None]
        window = place[:, None] + down * width + right
        mine = there & (tl.load(which_ptr + window * C + channel[None, :], there, 255) == turn)
        total += tl.load(dy_ptr + window * stride + channel[None, :], mine, 0.0).to(tl.float32)
    tl.store(dx_ptr + place[:, None] * C + channel[None, :], total.to(dx_ptr.dtype.element_ty), mask)
