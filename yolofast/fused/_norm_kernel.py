"""The kernels of `norm_act`, in a file of its own because importing it needs Triton.

A map is a matrix: a row for each place of each image, a column for each channel. A program takes some channels of a run
of rows. It sums them up, waits until the other programs of these channels have done so, and goes over its rows again,
the last first: those are still in the cache. So one launch does what takes a reduction, a launch and two passes
elsewhere. All programs must run at the same time, which the launch asks the driver for.

`PHASE` is 0 for all of it; 1 and 2 are the two halves, for an interpreter that runs programs one after the other.
"""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl

_SILU, _LEAKY = tl.constexpr(1), tl.constexpr(2)  # as `norm_act` has them


@triton.jit
def _activated(u, slope, ACT: tl.constexpr):
    if ACT == _SILU:
        u = u * tl.sigmoid(u)
    elif ACT == _LEAKY:
        u = tl.where(u > 0, u, u * slope)
    return u


@triton.jit
def _through_activation(dz, u, slope, ACT: tl.constexpr):
    if ACT == _SILU:
        share = tl.sigmoid(u)
        dz = dz * share * (1 + u * (1 - share))
    elif ACT == _LEAKY:
        dz = tl.where(u > 0, dz, dz * slope)
    return dz


@triton.jit
def _wait_for_all(counter_ptr, programs):
    """Until every program of this group of channels is here; the counter never goes back."""
    tl.debug_barrier()
    ticket = tl.atomic_add(counter_ptr, 1, sem="acq_rel")
    full = (ticket // programs + 1) * programs
    while tl.load(counter_ptr, volatile=True) < full:
        pass
    tl.atomic_add(counter_ptr, 0, sem="acquire")
    tl.debug_barrier()


@triton.jit
def sum_of_gradients(
    a_ptr, b_ptr, c_ptr, d_ptr, a_step, b_step, c_step, d_step, given, row, channel, mask,
    SEVERAL: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """Of a map that `given` layers read, in float32. All are asked for before one is waited for, those that are not
    there with an empty mask: a kernel for each count would be compiled for as many seconds."""
    total = tl.load(a_ptr + row * (a_step * UNIT) + channel, mask, 0.0).to(tl.float32)
    if SEVERAL:
        b = tl.load(b_ptr + row * (b_step * UNIT) + channel, mask & (given > 1), 0.0)
        c = tl.load(c_ptr + row * (c_step * UNIT) + channel, mask & (given > 2), 0.0)
        d = tl.load(d_ptr + row * (d_step * UNIT) + channel, mask & (given > 3), 0.0)
        total += b.to(tl.float32) + c.to(tl.float32) + d.to(tl.float32)
    return total


@triton.jit
def store_map(to_ptr, also_ptr, to_step, also_step, twice, row, channel, x, mask, UNIT: tl.constexpr):
    """Where it belongs, and into a joint map too."""
    x = x.to(to_ptr.dtype.element_ty)
    tl.store(to_ptr + row * (to_step * UNIT) + channel, x, mask)
    if twice > 0:
        tl.store(also_ptr + row * (also_step * UNIT) + channel, x, mask)


@triton.jit(do_not_specialize=["y_step", "z_step", "also_step", "plus_step", "twice"])
def norm_act_kernel(
    y_ptr, z_ptr, also_ptr, plus_ptr, y_step, z_step, also_step, plus_step, twice, weight_ptr, bias_ptr,
    mean_ptr, rstd_ptr, running_mean_ptr, running_var_ptr, parts_ptr, counters_ptr, rows, each, eps, momentum, slope,
    C: tl.constexpr, UNIT: tl.constexpr, PARTS: tl.constexpr, ACT: tl.constexpr, TRACKS: tl.constexpr,
    PLUS: tl.constexpr, PHASE: tl.constexpr, ONE_TILE: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """Means and M2 (sums of squares about the mean) per program, then those of all."""
    group, part = tl.program_id(0), tl.program_id(1)
    channel = group * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = channel < C
    first = part * each
    last = tl.minimum(first + each, rows)
    row = first + tl.arange(0, ROWS)
    mask = (row < last)[:, None] & inside[None, :]
    places = y_ptr + row.to(tl.int64)[:, None] * (y_step * UNIT) + channel[None, :]
    if PHASE != 2:
        tile = tl.load(places, mask, 0.0).to(tl.float32)
        # About the mean of the first tile: squares of numbers far from 0 would lose the variance.
        centre = tl.sum(tile, 0) / tl.minimum(last - first, ROWS)
        off = tl.where(mask, tile - centre[None, :], 0.0)
        total, squares = off, off * off
        if not ONE_TILE:
            for start in range(first + ROWS, last, ROWS):
                row = start + tl.arange(0, ROWS)
                mask = (row < last)[:, None] & inside[None, :]
                x = tl.load(y_ptr + row.to(tl.int64)[:, None] * (y_step * UNIT) + channel[None, :], mask, 0.0).to(
                    tl.float32
                )
                off = tl.where(mask, x - centre[None, :], 0.0)
                total += off
                squares += off * off
        count = (last - first).to(tl.float32)
        rest = tl.sum(total, 0)
        tl.store(parts_ptr + part * C + channel, centre + rest / count, inside)
        tl.store(parts_ptr + (PARTS + part) * C + channel, tl.sum(squares, 0) - rest * rest / count, inside)
    if PHASE == 0:
        _wait_for_all(counters_ptr + group, PARTS)
    if PHASE != 1:
        of_part = tl.arange(0, BLOCK_P)
        there = (of_part < PARTS)[:, None] & inside[None, :]
        count = tl.maximum(tl.minimum(each, rows - of_part * each), 0).to(tl.float32)[:, None]
        found = parts_ptr + of_part[:, None] * C + channel[None, :]
        means = tl.load(found, there, 0.0, cache_modifier=".cg")
        within = tl.load(found + PARTS * C, there, 0.0, cache_modifier=".cg")
        mean = tl.sum(means * count, 0) / rows
        apart = means - mean[None, :]
        m2 = tl.sum(within + count * apart * apart, 0)
        rstd = 1 / tl.sqrt(m2 / rows + eps)
        if part == 0:
            tl.store(mean_ptr + channel, mean, inside)
            tl.store(rstd_ptr + channel, rstd, inside)
            if TRACKS:
                old = tl.load(running_mean_ptr + channel, inside)
                tl.store(running_mean_ptr + channel, old + momentum * (mean - old), inside)
                old = tl.load(running_var_ptr + channel, inside)
                tl.store(running_var_ptr + channel, old + momentum * (m2 / (rows - 1) - old), inside)
        factor = rstd * tl.load(weight_ptr + channel, inside)
        bias = tl.load(bias_ptr + channel, inside)
        tiles = tl.cdiv(last - first, ROWS)
        if ONE_TILE:
            if PHASE == 2:
                tile = tl.load(places, mask, 0.0).to(tl.float32)
            u = (tile - mean[None, :]) * factor[None, :] + bias[None, :]
            z, far = _activated(u, slope, ACT), row.to(tl.int64)[:, None]
            if PLUS:
                z += tl.load(plus_ptr + far * (plus_step * UNIT) + channel[None, :], mask, 0.0).to(tl.float32)
            store_map(z_ptr, also_ptr, z_step, also_step, twice, far, channel[None, :], z, mask, UNIT)
        else:
            for turn in range(0, tiles):
                row = first + (tiles - 1 - turn) * ROWS + tl.arange(0, ROWS)
                mask = (row < last)[:, None] & inside[None, :]
                x = tl.load(y_ptr + row.to(tl.int64)[:, None] * (y_step * UNIT) + channel[None, :], mask, 0.0).to(
                    tl.float32
                )
                u = (x - mean[None, :]) * factor[None, :] + bias[None, :]
                z, far = _activated(u, slope, ACT), row.to(tl.int64)[:, None]
                if PLUS:
                    z += tl.load(plus_ptr + far * (plus_step * UNIT) + channel[None, :], mask, 0.0).to(tl.float32)
                store_map(z_ptr, also_ptr, z_step, also_step, twice, far, channel[None, :], z, mask, UNIT)


@triton.jit
def _gradient(
    y_ptr, a_ptr, b_ptr, c_ptr, d_ptr, y_step, a_step, b_step, c_step, d_step, given,
    row, last, channel, inside, mean, rstd, weight, bias, slope,
    SEVERAL: tl.constexpr, UNIT: tl.constexpr, ACT: tl.constexpr,
):  # fmt: skip
    """Of the normalised map before the activation, that map without weight and bias, and where they are."""
    mask = (row < last)[:, None] & inside[None, :]
    far = row.to(tl.int64)[:, None]
    y = tl.load(y_ptr + far * (y_step * UNIT) + channel[None, :], mask, 0.0).to(tl.float32)
    dz = sum_of_gradients(
        a_ptr, b_ptr, c_ptr, d_ptr, a_step, b_step, c_step, d_step, given, far, channel[None, :], mask, SEVERAL, UNIT
    )
    normal = (y - mean[None, :]) * rstd[None, :]
    du = _through_activation(dz, normal * weight[None, :] + bias[None, :], slope, ACT)
    return du, normal, mask


@triton.jit(do_not_specialize=["y_step", "a_step", "b_step", "c_step", "d_step", "dy_step", "given"])
def norm_act_back_kernel(
    y_ptr, dy_ptr, a_ptr, b_ptr, c_ptr, d_ptr, y_step, dy_step, a_step, b_step, c_step, d_step, given,
    weight_ptr, bias_ptr, mean_ptr, rstd_ptr, dweight_ptr, dbias_ptr, parts_ptr, counters_ptr, rows, each, slope,
    C: tl.constexpr, UNIT: tl.constexpr, PARTS: tl.constexpr, ACT: tl.constexpr, SEVERAL: tl.constexpr,
    PHASE: tl.constexpr, ONE_TILE: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr,
    BLOCK_P: tl.constexpr,
):  # fmt: skip
    group, part = tl.program_id(0), tl.program_id(1)
    channel = group * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = channel < C
    first = part * each
    last = tl.minimum(first + each, rows)
    row = first + tl.arange(0, ROWS)
    mean, rstd = tl.load(mean_ptr + channel, inside), tl.load(rstd_ptr + channel, inside)
    weight, bias = tl.load(weight_ptr + channel, inside), tl.load(bias_ptr + channel, inside)
    if PHASE != 2:
        du, normal, mask = _gradient(
            y_ptr, a_ptr, b_ptr, c_ptr, d_ptr, y_step, a_step, b_step, c_step, d_step, given,
            row, last, channel, inside, mean, rstd, weight, bias, slope, SEVERAL, UNIT, ACT,
        )  # fmt: skip
        total, along = du, du * normal
        if not ONE_TILE:
            for start in range(first + ROWS, last, ROWS):
                x, other, mask = _gradient(
                    y_ptr, a_ptr, b_ptr, c_ptr, d_ptr, y_step, a_step, b_step, c_step, d_step, given,
                    start + tl.arange(0, ROWS), last, channel, inside, mean, rstd, weight, bias, slope,
                    SEVERAL, UNIT, ACT,
                )  # fmt: skip
                total += x
                along += x * other
        tl.store(parts_ptr + part * C + channel, tl.sum(total, 0), inside)
        tl.store(parts_ptr + (PARTS + part) * C + channel, tl.sum(along, 0), inside)
    if PHASE == 0:
        _wait_for_all(counters_ptr + group, PARTS)
    if PHASE != 1:
        of_part = tl.arange(0, BLOCK_P)
        there = (of_part < PARTS)[:, None] & inside[None, :]
        found = parts_ptr + of_part[:, None] * C + channel[None, :]
        dbias = tl.sum(tl.load(found, there, 0.0, cache_modifier=".cg"), 0)
        dweight = tl.sum(tl.load(found + PARTS * C, there, 0.0, cache_modifier=".cg"), 0)
        if part == 0:
            tl.store(dbias_ptr + channel, dbias, inside)
            tl.store(dweight_ptr + channel, dweight, inside)
        factor, even, tilt = weight * rstd, dbias / rows, dweight / rows
        tiles = tl.cdiv(last - first, ROWS)
        if ONE_TILE:
            if PHASE == 2:
                du, normal, mask = _gradient(
                    y_ptr, a_ptr, b_ptr, c_ptr, d_ptr, y_step, a_step, b_step, c_step, d_step, given,
                    row, last, channel, inside, mean, rstd, weight, bias, slope, SEVERAL, UNIT, ACT,
                )  # fmt: skip
            dy = factor[None, :] * (du - even[None, :] - normal * tilt[None, :])
            to = dy_ptr + row.to(tl.int64)[:, None] * (dy_step * UNIT) + channel[None, :]
            tl.store(to, dy.to(dy_ptr.dtype.element_ty), mask)
        else:
            for turn in range(0, tiles):
                row = first + (tiles - 1 - turn) * ROWS + tl.arange(0, ROWS)
                du, normal, mask = _gradient(
                    y_ptr, a_ptr, b_ptr, c_ptr, d_ptr, y_step, a_step, b_step, c_step, d_step, given,
                    row, last, channel, inside, mean, rstd, weight, bias, slope, SEVERAL, UNIT, ACT,
                )  # fmt: skip
                dy = factor[None, :] * (du - even[None, :] - normal * tilt[None, :])
                to = dy_ptr + row.to(tl.int64)[:, None] * (dy_step * UNIT) + channel[None, :]
                tl.store(to, dy.to(dy_ptr.dtype.element_ty), mask)
