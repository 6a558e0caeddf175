"""The kernels of `stages_triton`, in a file of its own because importing it needs Triton.

A program of `stage_kernel` takes BLOCK channels of a history, one of `tail_kernel` a whole history. Backwards all
stages are one grid: boxes and states are handed on detached, so that none waits for the next.
"""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl

from yolofast.motion._scan_kernel import _silu, _silu_slope, _softplus


@triton.jit
def _embedded(b0, b1, b2, b3, divisor_ptr, c):
    """As `sine_embedding`: 64 channels for each coordinate, sines at even places."""
    part = c // 64
    box = tl.where(part < 2, tl.where(part == 0, b0, b1), tl.where(part == 2, b2, b3))
    angle = box * 6.283185307179586 / tl.load(divisor_ptr + c)
    return tl.where(c % 2 == 0, tl.sin(angle), tl.cos(angle))


@triton.jit
def embed_kernel(box_ptr, box_stride, divisor_ptr, waves_ptr, D: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, D)
    box = box_ptr + row.to(tl.int64) * box_stride
    b0, b1, b2, b3 = tl.load(box), tl.load(box + 1), tl.load(box + 2), tl.load(box + 3)
    tl.store(waves_ptr + row * D + c, _embedded(b0, b1, b2, b3, divisor_ptr, c))


@triton.jit
def stage_kernel(
    wide_ptr, step_ptr, chosen_ptr, chosen_stride, bias_ptr, log_ptr, skip_ptr, before_ptr, y_ptr, after_ptr,
    HAS_STATE: tl.constexpr, KEEP: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    history = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, 16)
    place = (history * D + channel)[:, None] * 16 + n[None, :]
    x = _silu(tl.load(wide_ptr + history * 2 * D + channel))
    gate = tl.load(wide_ptr + history * 2 * D + D + channel)
    step = _softplus(tl.load(step_ptr + history * D + channel) + tl.load(bias_ptr + channel))
    chosen = chosen_ptr + history * chosen_stride + n
    write, read = tl.load(chosen + 16), tl.load(chosen + 32)
    state = (step * x)[:, None] * write[None, :]
    if HAS_STATE:
        rate = -tl.exp(tl.load(log_ptr + channel[:, None] * 16 + n[None, :]))
        state += tl.exp(step[:, None] * rate) * tl.load(before_ptr + place)
    if KEEP:
        tl.store(after_ptr + place, state)
    y = tl.sum(state * read[None, :], axis=1) + tl.load(skip_ptr + channel) * x
    tl.store(y_ptr + history * D + channel, y * _silu(gate))


@triton.jit
def tail_kernel(
    y_ptr, more_ptr, norm_ptr, norm_bias_ptr, head_ptr, head_bias_ptr, divisor_ptr,
    scaled_ptr, inverse_ptr, boxes_ptr, waves_ptr,
    SIGMOID: tl.constexpr, LAST: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """What a stage's two linear layers add, its norm, its box, and the waves of that box for the next stage."""
    row = tl.program_id(0)
    c = tl.arange(0, D)
    z = tl.load(y_ptr + row * D + c) + tl.load(more_ptr + row * D + c)
    z -= tl.sum(z, axis=0) / D
    inverse = 1.0 / tl.sqrt(tl.sum(z * z, axis=0) / D + 1e-5)
    scaled = z * inverse
    tl.store(scaled_ptr + row * D + c, scaled)
    tl.store(inverse_ptr + row, inverse)
    normed = scaled * tl.load(norm_ptr + c) + tl.load(norm_bias_ptr + c)
    b0 = tl.sum(normed * tl.load(head_ptr + c), axis=0) + tl.load(head_bias_ptr)
    b1 = tl.sum(normed * tl.load(head_ptr + D + c), axis=0) + tl.load(head_bias_ptr + 1)
    b2 = tl.sum(normed * tl.load(head_ptr + 2 * D + c), axis=0) + tl.load(head_bias_ptr + 2)
    b3 = tl.sum(normed * tl.load(head_ptr + 3 * D + c), axis=0) + tl.load(head_bias_ptr + 3)
    if SIGMOID:
        b0, b1, b2, b3 = tl.sigmoid(b0), tl.sigmoid(b1), tl.sigmoid(b2), tl.sigmoid(b3)
    box = boxes_ptr + row * 4
    tl.store(box, b0)
    tl.store(box + 1, b1)
    tl.store(box + 2, b2)
    tl.store(box + 3, b3)
    if not LAST:
        tl.store(waves_ptr + row * D + c, _embedded(b0, b1, b2, b3, divisor_ptr, c))


@triton.jit
def _slope(dboxes_ptr, boxes_ptr, place, SIGMOID: tl.constexpr):
    slope = tl.load(dboxes_ptr + place)
    if SIGMOID:
        box = tl.load(boxes_ptr + place)
        slope *= box * (1 - box)
    return slope


@triton.jit
def tail_back_kernel(
    dboxes_ptr, boxes_ptr, scaled_ptr, inverse_ptr, norm_ptr, head_ptr, draw_ptr, dz_ptr, histories,
    SIGMOID: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    stage = tl.program_id(1)
    row = stage.to(tl.int64) * histories + tl.program_id(0)
    c = tl.arange(0, D)
    d0, d1 = _slope(dboxes_ptr, boxes_ptr, row * 4, SIGMOID), _slope(dboxes_ptr, boxes_ptr, row * 4 + 1, SIGMOID)
    d2, d3 = _slope(dboxes_ptr, boxes_ptr, row * 4 + 2, SIGMOID), _slope(dboxes_ptr, boxes_ptr, row * 4 + 3, SIGMOID)
    draw = draw_ptr + row * 4
    tl.store(draw, d0)
    tl.store(draw + 1, d1)
    tl.store(draw + 2, d2)
    tl.store(draw + 3, d3)
    head = head_ptr + stage * 4 * D + c
    slope = d0 * tl.load(head) + d1 * tl.load(head + D) + d2 * tl.load(head + 2 * D) + d3 * tl.load(head + 3 * D)
    slope *= tl.load(norm_ptr + stage * D + c)
    scaled = tl.load(scaled_ptr + row * D + c)
    slope -= tl.sum(slope, axis=0) / D + scaled * (tl.sum(slope * scaled, axis=0) / D)
    tl.store(dz_ptr + row * D + c, slope * tl.load(inverse_ptr + row))


@triton.jit
def stage_back_kernel(
    wide_ptr, step_ptr, chosen_ptr, chosen_stride, bias_ptr, log_ptr, skip_ptr, after_ptr, dy_ptr,
    dwide_ptr, dstep_ptr, dboth_ptr, dweights_ptr, histories,
    EACH: tl.constexpr, STAGES: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    block, stage = tl.program_id(1), tl.program_id(2)
    channel = block * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, 16)
    own_channel = stage * D + channel
    rate = -tl.exp(tl.load(log_ptr + own_channel[:, None] * 16 + n[None, :]))
    bias, skip = tl.load(bias_ptr + own_channel), tl.load(skip_ptr + own_channel)
    dbias = tl.zeros([BLOCK], tl.float32)
    dskip = tl.zeros([BLOCK], tl.float32)
    drate = tl.zeros([BLOCK, 16], tl.float32)
    first = tl.program_id(0) * EACH
    for offset in range(EACH):
        inside = first + offset < histories
        history = tl.minimum(first + offset, histories - 1).to(tl.int64)
        row = stage.to(tl.int64) * histories + history
        before = (row - histories) * D + channel
        # The first stage has no state yet.
        state = tl.load(after_ptr + before[:, None] * 16 + n[None, :], mask=stage > 0, other=0.0)
        raw_x = tl.load(wide_ptr + row * 2 * D + channel)
        x = _silu(raw_x)
        gate = tl.load(wide_ptr + row * 2 * D + D + channel)
        raw = tl.load(step_ptr + row * D + channel) + bias
        step = _softplus(raw)
        chosen = chosen_ptr + history * chosen_stride + stage * 48 + n
        write, read = tl.load(chosen + 16), tl.load(chosen + 32)
        dy = tl.where(inside, tl.load(dy_ptr + row * D + channel), 0.0)
        faded = tl.exp(step[:, None] * rate) * state
        after = faded + (step * x)[:, None] * write[None, :]
        y = tl.sum(after * read[None, :], axis=1) + skip * x
        dwide = dwide_ptr + row * 2 * D + channel
        tl.store(dwide + D, dy * y * _silu_slope(gate), mask=inside)
        dy *= _silu(gate)
        dskip += dy * x
        dafter = dy[:, None] * read[None, :]
        dfade = dafter * faded
        drate += dfade * step[:, None]
        dadded = tl.sum(dafter * write[None, :], axis=1)
        dstep = (tl.sum(dfade * rate, axis=1) + dadded * x) * tl.sigmoid(raw)
        dbias += dstep
        tl.store(dstep_ptr + row * D + channel, dstep, mask=inside)
        tl.store(dwide, (dadded * step + dy * skip) * _silu_slope(raw_x), mask=inside)
        part = dboth_ptr + ((block.to(tl.int64) * histories + history) * STAGES + stage) * 32 + n
        tl.store(part, tl.sum(dafter * (step * x)[:, None], axis=0), mask=inside)
        tl.store(part + 16, tl.sum(dy[:, None] * after, axis=0), mask=inside)
    own = dweights_ptr + (stage * tl.num_programs(0) + tl.program_id(0)) * D * 18
    tl.store(own + channel[:, None] * 16 + n[None, :], drate * rate)
    tl.store(own + D * 16 + channel, dbias)
    tl.store(own + D * 17 + channel, dskip)
