"""The kernels of `scan_triton`, in a file of its own because importing it needs Triton.

States are never written to memory: histories have five rows at most, whose states are computed again and held in
registers on the way back. A program takes BLOCK channels, forwards of one history, backwards of several in turn. Sums
over histories are written per program and added up by the caller, so that they are the same every time.
"""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def _silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def _silu_slope(x):
    share = tl.sigmoid(x)
    return share * (1 + x * (1 - share))


@triton.jit
def _softplus(x):
    power = tl.exp(x)
    # 1 + power would round a small one away.
    small = power * (1 - power * (0.5 - power / 3))
    return tl.where(x > 20.0, x, tl.where(power < 1e-2, small, tl.log(1 + power)))


@triton.jit
def _softplus_slope(y):
    """By what it gave: 1 - exp(-y)."""
    small = y * (1 - y * (0.5 - y * (1.0 / 6 - y / 24)))
    return tl.where(y < 2e-2, small, 1 - tl.exp(-y))


@triton.jit
def _conv(x_ptr, row, x_stride, channel, w0, w1, w2, w3, bias, t: tl.constexpr):
    """Before SiLU: row t and the three before it."""
    total = bias + w3 * tl.load(x_ptr + (row + t) * x_stride + channel)
    if t >= 1:
        total += w2 * tl.load(x_ptr + (row + t - 1) * x_stride + channel)
    if t >= 2:
        total += w1 * tl.load(x_ptr + (row + t - 2) * x_stride + channel)
    if t >= 3:
        total += w0 * tl.load(x_ptr + (row + t - 3) * x_stride + channel)
    return total


@triton.jit
def conv_kernel(x_ptr, x_stride, weight_ptr, bias_ptr, y_ptr, D: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * T
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    w0, w1 = tl.load(weight_ptr + channel * 4), tl.load(weight_ptr + channel * 4 + 1)
    w2, w3 = tl.load(weight_ptr + channel * 4 + 2), tl.load(weight_ptr + channel * 4 + 3)
    bias = tl.load(bias_ptr + channel)
    for t in tl.static_range(T):
        total = _conv(x_ptr, row, x_stride, channel, w0, w1, w2, w3, bias, t)
        tl.store(y_ptr + (row + t) * D + channel, _silu(total))


@triton.jit
def conv_back_kernel(
    x_ptr, x_stride, weight_ptr, bias_ptr, dy_ptr, dx_ptr, dweights_ptr, histories,
    EACH: tl.constexpr, D: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`dx` lies as `x` does."""
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    w0, w1 = tl.load(weight_ptr + channel * 4), tl.load(weight_ptr + channel * 4 + 1)
    w2, w3 = tl.load(weight_ptr + channel * 4 + 2), tl.load(weight_ptr + channel * 4 + 3)
    bias = tl.load(bias_ptr + channel)
    dbias = tl.zeros([BLOCK], tl.float32)
    dw0, dw1, dw2, dw3 = dbias, dbias, dbias, dbias
    first = tl.program_id(0) * EACH
    for offset in range(EACH):
        inside = first + offset < histories
        row = tl.minimum(first + offset, histories - 1).to(tl.int64) * T
        # Slopes of the rows that come after: row t is part of the sums of rows t … t + 3.
        s1, s2, s3 = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
        for back in tl.static_range(T):
            at = row + T - 1 - back
            total = _conv(x_ptr, row, x_stride, channel, w0, w1, w2, w3, bias, T - 1 - back)
            slope = tl.where(inside, tl.load(dy_ptr + at * D + channel) * _silu_slope(total), 0.0)
            dbias += slope
            dw3 += slope * tl.load(x_ptr + at * x_stride + channel)
            if T - 1 - back >= 1:
                dw2 += slope * tl.load(x_ptr + (at - 1) * x_stride + channel)
            if T - 1 - back >= 2:
                dw1 += slope * tl.load(x_ptr + (at - 2) * x_stride + channel)
            if T - 1 - back >= 3:
                dw0 += slope * tl.load(x_ptr + (at - 3) * x_stride + channel)
            tl.store(dx_ptr + at * x_stride + channel, w3 * slope + w2 * s1 + w1 * s2 + w0 * s3, mask=inside)
            s3 = s2
            s2 = s1
            s1 = slope
    own = dweights_ptr + tl.program_id(0) * D * 5
    tl.store(own + channel * 4, dw0)
    tl.store(own + channel * 4 + 1, dw1)
    tl.store(own + channel * 4 + 2, dw2)
    tl.store(own + channel * 4 + 3, dw3)
    tl.store(own + D * 4 + channel, dbias)


@triton.jit
def _moved(state, x_ptr, step_ptr, write_ptr, chosen_stride, rate, row, channel, n, D: tl.constexpr):
    """The state after a row."""
    step = tl.load(step_ptr + row * D + channel)
    x = tl.load(x_ptr + row * D + channel)
    write = tl.load(write_ptr + row * chosen_stride + n)
    return tl.exp(step[:, None] * rate) * state + (step * x)[:, None] * write[None, :]


@triton.jit
def scan_kernel(
    x_ptr, step_ptr, gate_ptr, gate_stride, write_ptr, read_ptr, chosen_stride, bias_ptr, log_ptr, skip_ptr, y_ptr,
    D: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Steps become what they are after bias and softplus, which the way back reads."""
    history = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, 16)
    rate = -tl.exp(tl.load(log_ptr + channel[:, None] * 16 + n[None, :]))
    bias, skip = tl.load(bias_ptr + channel), tl.load(skip_ptr + channel)
    state = tl.zeros([BLOCK, 16], tl.float32)
    for t in tl.static_range(T):
        row = history * T + t
        step = _softplus(tl.load(step_ptr + row * D + channel) + bias)
        tl.store(step_ptr + row * D + channel, step)
        x = tl.load(x_ptr + row * D + channel)
        write, read = tl.load(write_ptr + row * chosen_stride + n), tl.load(read_ptr + row * chosen_stride + n)
        state = tl.exp(step[:, None] * rate) * state + (step * x)[:, None] * write[None, :]
        gate = tl.load(gate_ptr + row * gate_stride + channel)
        y = tl.sum(state * read[None, :], axis=1) + skip * x
        tl.store(y_ptr + row * D + channel, y * _silu(gate))


@triton.jit
def scan_back_kernel(
    x_ptr, step_ptr, gate_ptr, gate_stride, write_ptr, read_ptr, chosen_stride, log_ptr, skip_ptr,
    dy_ptr, dx_ptr, dstep_ptr, dgate_ptr, dboth_ptr, dweights_ptr, histories,
    EACH: tl.constexpr, D: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`dgate` lies as `gate` does."""
    block = tl.program_id(1)
    channel = block * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, 16)
    rate = -tl.exp(tl.load(log_ptr + channel[:, None] * 16 + n[None, :]))
    skip = tl.load(skip_ptr + channel)
    dbias = tl.zeros([BLOCK], tl.float32)
    dskip = tl.zeros([BLOCK], tl.float32)
    drate = tl.zeros([BLOCK, 16], tl.float32)
    first = tl.program_id(0) * EACH
    for offset in range(EACH):
        inside = first + offset < histories
        history = tl.minimum(first + offset, histories - 1).to(tl.int64)
        begin = history * T
        start = tl.zeros([BLOCK, 16], tl.float32)
        # The state before each row but the first.
        if T > 1:
            s1 = _moved(start, x_ptr, step_ptr, write_ptr, chosen_stride, rate, begin, channel, n, D)
        if T > 2:
            s2 = _moved(s1, x_ptr, step_ptr, write_ptr, chosen_stride, rate, begin + 1, channel, n, D)
        if T > 3:
            s3 = _moved(s2, x_ptr, step_ptr, write_ptr, chosen_stride, rate, begin + 2, channel, n, D)
        if T > 4:
            s4 = _moved(s3, x_ptr, step_ptr, write_ptr, chosen_stride, rate, begin + 3, channel, n, D)
        carried = tl.zeros([BLOCK, 16], tl.float32)
        for back in tl.static_range(T):
            state = start
            if T - 1 - back == 1:
                state = s1
            if T - 1 - back == 2:
                state = s2
            if T - 1 - back == 3:
                state = s3
            if T - 1 - back == 4:
                state = s4
            row = begin + T - 1 - back
            step = tl.load(step_ptr + row * D + channel)
            x = tl.load(x_ptr + row * D + channel)
            gate = tl.load(gate_ptr + row * gate_stride + channel)
            write, read = tl.load(write_ptr + row * chosen_stride + n), tl.load(read_ptr + row * chosen_stride + n)
            dy = tl.where(inside, tl.load(dy_ptr + row * D + channel), 0.0)
            fade = tl.exp(step[:, None] * rate)
            after = fade * state + (step * x)[:, None] * write[None, :]
            y = tl.sum(after * read[None, :], axis=1) + skip * x
            tl.store(dgate_ptr + row * gate_stride + channel, dy * y * _silu_slope(gate), mask=inside)
            dy *= _silu(gate)
            dskip += dy * x
            dafter = dy[:, None] * read[None, :] + carried
            dfade = dafter * state * fade
            drate += dfade * step[:, None]
            dadded = tl.sum(dafter * write[None, :], axis=1)
            dstep = (tl.sum(dfade * rate, axis=1) + dadded * x) * _softplus_slope(step)
            dbias += dstep
            tl.store(dstep_ptr + row * D + channel, dstep, mask=inside)
            tl.store(dx_ptr + row * D + channel, dadded * step + dy * skip, mask=inside)
            part = dboth_ptr + (block.to(tl.int64) * histories * T + row) * 32 + n
            tl.store(part, tl.sum(dafter * (step * x)[:, None], axis=0), mask=inside)
            tl.store(part + 16, tl.sum(dy[:, None] * after, axis=0), mask=inside)
            carried = dafter * fade
    own = dweights_ptr + tl.program_id(0) * D * 18
    tl.store(own + channel[:, None] * 16 + n[None, :], drate * rate)
    tl.store(own + D * 16 + channel, dbias)
    tl.store(own + D * 17 + channel, dskip)
