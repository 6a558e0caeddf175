"""The kernels of `pool`, in a file of its own because importing it needs Triton."""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl

from yolofast.fused._norm_kernel import store_map, sum_of_gradients

_makes_map = triton.jit(do_not_specialize=["x_step", "y_step", "also_step", "twice"])
_adds_gradients = triton.jit(do_not_specialize=["a_step", "b_step", "c_step", "d_step", "given"])


@triton.jit
def _corner(place, height, width):
    """The first row of the four that a place is made of; maps are matrices with a row for each place."""
    image, rest = place // (height * width), place % (height * width)
    return (image * 2 * height + rest // width * 2) * (2 * width) + rest % width * 2


@_makes_map
def pool_kernel(
    x_ptr, y_ptr, also_ptr, x_step, y_step, also_step, twice, which_ptr, places, height, width,
    UNIT: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr, REMEMBERS: tl.constexpr,
):  # fmt: skip
    """The largest of each 2 × 2, the first of equals, and, if it remembers, which it was."""
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (place < places)[:, None] & (channel < C)[None, :]
    source = x_ptr + _corner(place, height, width)[:, None] * (x_step * UNIT) + channel[None, :]
    best = tl.load(source, mask, 0.0)
    which = tl.zeros([ROWS, BLOCK_C], tl.int32)
    for turn in tl.static_range(1, 4):
        other = tl.load(source + ((turn // 2) * 2 * width + turn % 2) * (x_step * UNIT), mask, 0.0)
        larger = (other > best) | (other != other)
        best = tl.where(larger, other, best)
        which = tl.where(larger, turn, which)
    store_map(y_ptr, also_ptr, y_step, also_step, twice, place[:, None], channel[None, :], best, mask, UNIT)
    if REMEMBERS:
        tl.store(which_ptr + place[:, None] * C + channel[None, :], which.to(tl.uint8), mask)


@_adds_gradients
def pool_back_kernel(
    a_ptr, b_ptr, c_ptr, d_ptr, a_step, b_step, c_step, d_step, given, which_ptr, dx_ptr, places, height, width,
    SEVERAL: tl.constexpr, UNIT: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (place < places)[:, None] & (channel < C)[None, :]
    dy = sum_of_gradients(
        a_ptr, b_ptr, c_ptr, d_ptr, a_step, b_step, c_step, d_step, given,
        place[:, None], channel[None, :], mask, SEVERAL, UNIT,
    ).to(dx_ptr.dtype.element_ty)  # fmt: skip
    which = tl.load(which_ptr + place[:, None] * C + channel[None, :], mask, 0).to(tl.int32)
    to = dx_ptr + _corner(place, height, width)[:, None] * C + channel[None, :]
    for turn in tl.static_range(4):
        tl.store(to + ((turn // 2) * 2 * width + turn % 2) * C, tl.where(which == turn, dy, 0.0), mask)


@_makes_map
def window_kernel(
    x_ptr, y_ptr, also_ptr, x_step, y_step, also_step, twice, which_ptr, places, height, width,
    K: tl.constexpr, UNIT: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr,
    REMEMBERS: tl.constexpr,
):  # fmt: skip
    """The largest of the K × K around each place, the first of equals, and, if it remembers, which it was."""
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (place < places)[:, None] & (channel < C)[None, :]
    y, x = place // width % height, place % width
    source = x_ptr + place[:, None] * (x_step * UNIT) + channel[None, :]
    best = tl.full([ROWS, BLOCK_C], float("-inf"), tl.float32)
    which = tl.zeros([ROWS, BLOCK_C], tl.int32)
    for turn in tl.static_range(K * K):
        down = turn // K - K // 2
        right = turn % K - K // 2
        there = (y + down >= 0) & (y + down < height) & (x + right >= 0) & (x + right < width)
        there = mask & there[:, None]
        other = tl.load(source + (down * width + right) * (x_step * UNIT), there, float("-inf")).to(tl.float32)
        larger = (other > best) | (other != other)
        best = tl.where(larger, other, best)
        which = tl.where(larger, turn, which)
    store_map(y_ptr, also_ptr, y_step, also_step, twice, place[:, None], channel[None, :], best, mask, UNIT)
    if REMEMBERS:
        tl.store(which_ptr + place[:, None] * C + channel[None, :], which.to(tl.uint8), mask)


@_adds_gradients
def window_back_kernel(
    a_ptr, b_ptr, c_ptr, d_ptr, a_step, b_step, c_step, d_step, given, which_ptr, dx_ptr, places, height, width,
    K: tl.constexpr, SEVERAL: tl.constexpr, UNIT: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_C: tl.constexpr,
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
        mine = tl.load(which_ptr + window * C + channel[None, :], there, 255) == turn
        # Of all, and not of its own alone: whole vectors are read at once.
        dy = sum_of_gradients(
            a_ptr, b_ptr, c_ptr, d_ptr, a_step, b_step, c_step, d_step, given,
            window, channel[None, :], there, SEVERAL, UNIT,
        )  # fmt: skip
        total += tl.where(mine, dy, 0.0)
    tl.store(dx_ptr + place[:, None] * C + channel[None, :], total.to(dx_ptr.dtype.element_ty), mask)


@_makes_map
def double_kernel(
    x_ptr, y_ptr, also_ptr, x_step, y_step, also_step, twice, places, height, width,
    UNIT: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Each place four times."""
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (place < places)[:, None] & (channel < C)[None, :]
    x = tl.load(x_ptr + place[:, None] * (x_step * UNIT) + channel[None, :], mask, 0.0)
    corner = _corner(place, height, width)[:, None]
    for turn in tl.static_range(4):
        to = corner + (turn // 2) * 2 * width + turn % 2
        store_map(y_ptr, also_ptr, y_step, also_step, twice, to, channel[None, :], x, mask, UNIT)


@_adds_gradients
def double_back_kernel(
    a_ptr, b_ptr, c_ptr, d_ptr, a_step, b_step, c_step, d_step, given, dx_ptr, places, height, width,
    SEVERAL: tl.constexpr, UNIT: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (place < places)[:, None] & (channel < C)[None, :]
    corner = _corner(place, height, width)[:, None]
    total = tl.zeros([ROWS, BLOCK_C], tl.float32)
    for turn in tl.static_range(4):
        of = corner + (turn // 2) * 2 * width + turn % 2
        total += sum_of_gradients(
            a_ptr, b_ptr, c_ptr, d_ptr, a_step, b_step, c_step, d_step, given,
            of, channel[None, :], mask, SEVERAL, UNIT,
        )  # fmt: skip
    tl.store(dx_ptr + place[:, None] * C + channel[None, :], total.to(dx_ptr.dtype.element_ty), mask)
