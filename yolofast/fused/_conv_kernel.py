"""The kernels of `conv_act`, in a file of its own because importing it needs Triton.

Maps are matrices with a row for each place of each image. `joint` is the same map as some channels of a wider one,
whose rows are `pitch` numbers apart; `dense` and `joined` say which of the two is written.
"""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl
from triton.language import constexpr as constexpr

from yolofast.fused._norm_kernel import _activated

_VARY = ["places", "in_h", "in_w", "out_h", "out_w", "stride", "dense", "joined", "turns"]
"""None is worth a kernel of its own."""


@triton.jit
def _store(
    total, bias_ptr, y_ptr, joint_ptr, place, output, mask, c_out, pitch, slope, dense, joined, ACT: tl.constexpr
):
    bias = tl.load(bias_ptr + output, output < c_out, 0.0).to(tl.float32)
    y = _activated(total + bias[None, :], slope, ACT).to(y_ptr.dtype.element_ty)
    row = place.to(tl.int64)[:, None]
    tl.store(y_ptr + row * c_out + output[None, :], y, mask & (dense > 0))
    tl.store(joint_ptr + row * pitch + output[None, :], y, mask & (joined > 0))


@triton.jit(do_not_specialize=["places", "dense", "joined"])
def bias_act_kernel(
    y_ptr, bias_ptr, joint_ptr, places, c_out, pitch, slope, dense, joined,
    ACT: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_OUT: tl.constexpr,
):  # fmt: skip
    """What is behind a convolution, in place."""
    place = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    output = tl.program_id(1) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    mask = (place < places)[:, None] & (output < c_out)[None, :]
    total = tl.load(y_ptr + place.to(tl.int64)[:, None] * c_out + output[None, :], mask, 0.0).to(tl.float32)
    _store(total, bias_ptr, y_ptr, joint_ptr, place, output, mask, c_out, pitch, slope, dense, joined, ACT)


@triton.jit(do_not_specialize=_VARY)
def conv_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, joint_ptr, places, in_h, in_w, out_h, out_w, c_in, c_out, pitch,
    window, stride, slope, dense, joined, turns,
    ACT: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_OUT: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """All of it. Weights are `[c_out, window, window, c_in]` in memory; each of the window² · ⌈c_in / BLOCK_C⌉ turns
    multiplies some channels of one tap."""
    outputs = tl.cdiv(c_out, BLOCK_OUT)  # neighbours read the same places
    place = tl.program_id(0) // outputs * BLOCK_P + tl.arange(0, BLOCK_P)
    output = tl.program_id(0) % outputs * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    image, rest = place // (out_h * out_w), place % (out_h * out_w)
    top, left = rest // out_w * stride - window // 2, rest % out_w * stride - window // 2
    corner = ((image * in_h + top).to(tl.int64) * in_w + left) * c_in
    flat = window * window * c_in
    weights = weight_ptr + output[None, :] * flat
    blocks = tl.cdiv(c_in, BLOCK_C)
    total = tl.zeros([BLOCK_P, BLOCK_OUT], tl.float32)
    for turn in range(0, turns):
        tap = turn // blocks
        channel = turn % blocks * BLOCK_C + tl.arange(0, BLOCK_C)
        y, x = top + tap // window, left + tap % window
        there = (place < places) & (y >= 0) & (y < in_h) & (x >= 0) & (x < in_w)
        source = x_ptr + corner[:, None] + (((tap // window) * in_w + tap % window) * c_in + channel)[None, :]
        pixels = tl.load(source, there[:, None] & (channel < c_in)[None, :], 0.0)
        known = (channel < c_in)[:, None] & (output < c_out)[None, :]
        total = tl.dot(pixels, tl.load(weights + (tap * c_in + channel)[:, None], known, 0.0), total)
    mask = (place < places)[:, None] & (output < c_out)[None, :]
    _store(total, bias_ptr, y_ptr, joint_ptr, place, output, mask, c_out, pitch, slope, dense, joined, ACT)


@triton.jit(do_not_specialize=_VARY[:-1])
def image_conv_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, joint_ptr, places, in_h, in_w, out_h, out_w, c_out, pitch, stride,
    slope, dense, joined,
    K: tl.constexpr, C: tl.constexpr, ACT: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_OUT: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """Of so few channels that all taps are one turn."""
    outputs = tl.cdiv(c_out, BLOCK_OUT)
    place = tl.program_id(0) // outputs * BLOCK_P + tl.arange(0, BLOCK_P)
    output = tl.program_id(0) % outputs * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    number = tl.arange(0, NUMBERS)
    down, right, channel = number // (K * C), number // C % K, number % C
    image, rest = place // (out_h * out_w), place % (out_h * out_w)
    y = (rest // out_w * stride - K // 2)[:, None] + down[None, :]
    x = (rest % out_w * stride - K // 2)[:, None] + right[None, :]
    there = (y >= 0) & (y < in_h) & (x >= 0) & (x < in_w) & (place < places)[:, None] & (number < K * K * C)[None, :]
    at = ((image[:, None] * in_h + y).to(tl.int64) * in_w + x) * C + channel[None, :]
    known = (number < K * K * C)[:, None] & (output < c_out)[None, :]
    weight = tl.load(weight_ptr + output[None, :] * (K * K * C) + number[:, None], known, 0.0)
    total = tl.dot(tl.load(x_ptr + at, there, 0.0), weight)
    mask = (place < places)[:, None] & (output < c_out)[None, :]
    _store(total, bias_ptr, y_ptr, joint_ptr, place, output, mask, c_out, pitch, slope, dense, joined, ACT)
