"""The kernel of `loss_triton`, in a file of its own because importing it needs Triton."""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def _smooth(own, wanted):
    """Smooth L1 and its slope."""
    off = own - wanted
    far = tl.abs(off)
    value = tl.where(far < 1.0, 0.5 * off * off, far - 0.5)
    return value, tl.minimum(tl.maximum(off, -1.0), 1.0)


@triton.jit
def _above(one, other):
    """Whose slope a maximum has: a half each where both are equal, as torch shares it."""
    return tl.where(one > other, 1.0, tl.where(one == other, 0.5, 0.0))


@triton.jit
def _axis(centre, size, wanted_centre, wanted_size):
    """Along one axis: ends of both boxes, and what they have in common, cover, and are long."""
    low, high = centre - size / 2, centre + size / 2
    low2, high2 = wanted_centre - wanted_size / 2, wanted_centre + wanted_size / 2
    common = tl.minimum(high, high2) - tl.maximum(low, low2)
    cover = tl.maximum(high, high2) - tl.minimum(low, low2)
    return low, high, low2, high2, common, cover


@triton.jit
def _back(low, high, low2, high2, common, cover, dcommon, dcover, dlong):
    """Slopes for a centre and a size. Sides that were cut at 0 have none."""
    dcommon = tl.where(common >= 0, dcommon, 0.0)
    dcover = tl.where(cover >= 0, dcover, 0.0)
    dlong = tl.where(high - low >= 0, dlong, 0.0)
    dhigh = dcommon * _above(high2, high) + dcover * _above(high, high2) + dlong
    dlow = -dcommon * _above(low, low2) - dcover * _above(low2, low) - dlong
    return dlow + dhigh, (dhigh - dlow) / 2


@triton.jit
def loss_kernel(
    boxes_ptr, last_ptr, last_stride, truth_ptr, sums_ptr, slopes_ptr, count,
    STAGES: tl.constexpr, BLOCK: tl.constexpr, SMALLEST: tl.constexpr,
):  # fmt: skip
    """Of BLOCK boxes of a stage: both terms' sums, and their slopes for every coordinate."""
    stage = tl.program_id(1)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < count
    own = (stage * count + row) * 4
    x, y = tl.load(boxes_ptr + own, inside, 0.5), tl.load(boxes_ptr + own + 1, inside, 0.5)
    w, h = tl.load(boxes_ptr + own + 2, inside, 0.5), tl.load(boxes_ptr + own + 3, inside, 0.5)
    last, truth = last_ptr + row.to(tl.int64) * last_stride, truth_ptr + row * 4
    share = (stage + 1).to(tl.float32) / STAGES
    x2, y2 = tl.load(last, inside, 0.5), tl.load(last + 1, inside, 0.5)
    w2, h2 = tl.load(last + 2, inside, 0.5), tl.load(last + 3, inside, 0.5)
    x2 += share * (tl.load(truth, inside, 0.5) - x2)
    y2 += share * (tl.load(truth + 1, inside, 0.5) - y2)
    w2 += share * (tl.load(truth + 2, inside, 0.5) - w2)
    h2 += share * (tl.load(truth + 3, inside, 0.5) - h2)

    far_x, slope_x = _smooth(x, x2)
    far_y, slope_y = _smooth(y, y2)
    far_w, slope_w = _smooth(w, w2)
    far_h, slope_h = _smooth(h, h2)
    tl.store(slopes_ptr + own, slope_x / (4 * count), inside)
    tl.store(slopes_ptr + own + 1, slope_y / (4 * count), inside)
    tl.store(slopes_ptr + own + 2, slope_w / (4 * count), inside)
    tl.store(slopes_ptr + own + 3, slope_h / (4 * count), inside)

    left, right, left2, right2, common_x, cover_x = _axis(x, w, x2, w2)
    top, bottom, top2, bottom2, common_y, cover_y = _axis(y, h, y2, h2)
    both_x, both_y = tl.maximum(common_x, 0.0), tl.maximum(common_y, 0.0)
    around_x, around_y = tl.maximum(cover_x, 0.0), tl.maximum(cover_y, 0.0)
    long_x, long_y = tl.maximum(right - left, 0.0), tl.maximum(bottom - top, 0.0)
    both, around = both_x * both_y, around_x * around_y
    union = long_x * long_y + tl.maximum(right2 - left2, 0.0) * tl.maximum(bottom2 - top2, 0.0) - both
    safe_union, safe_around = tl.maximum(union, SMALLEST), tl.maximum(around, SMALLEST)
    giou = both / safe_union - (around - union) / safe_around
    # Slopes of -giou.
    dunion = tl.where(union >= SMALLEST, both / (safe_union * safe_union), 0.0) - 1 / safe_around
    daround = 1 / safe_around - tl.where(around >= SMALLEST, (around - union) / (safe_around * safe_around), 0.0)
    dboth = -1 / safe_union - dunion
    dx, dw = _back(
        left, right, left2, right2, common_x, cover_x, dboth * both_y, daround * around_y, dunion * long_y
    )  # fmt: skip
    dy, dh = _back(
        top, bottom, top2, bottom2, common_y, cover_y, dboth * both_x, daround * around_x, dunion * long_x
    )  # fmt: skip
    other = slopes_ptr + STAGES * count * 4 + own
    tl.store(other, dx / count, inside)
    tl.store(other + 1, dy / count, inside)
    tl.store(other + 2, dw / count, inside)
    tl.store(other + 3, dh / count, inside)

    program = stage * tl.num_programs(0) + tl.program_id(0)
    far = tl.where(inside, far_x + far_y + far_w + far_h, 0.0)
    tl.store(sums_ptr + program, tl.sum(far, axis=0) / (4 * count))
    sums = sums_ptr + STAGES * tl.num_programs(0) + program
    tl.store(sums, tl.sum(tl.where(inside, 1 - giou, 0.0), axis=0) / count)
