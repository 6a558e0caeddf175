"""`letterbox` as one Triton kernel: a program writes a block of pixels of one image's input."""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def letterbox_kernel(
    levels, starts, sizes, scales, inputs, height, width, fill, divisor,
    SWAP: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`levels` are bytes of all pictures, `inputs` [B, H, W, CHANNELS] in memory; the rest is as in `Pictures`."""
    image = tl.program_id(0)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < height * width
    y, x = place // width, place % width
    size = sizes + image * 6
    own_w, own_h = tl.load(size), tl.load(size + 1)
    used_w, used_h = tl.load(size + 2), tl.load(size + 3)
    left, top = tl.load(size + 4), tl.load(size + 5)
    shown = inside & (x >= left) & (x < left + used_w) & (y >= top) & (y < top + used_h)
    from_x = ((x - left).to(tl.float32) + 0.5) * tl.load(scales + image * 2) - 0.5
    from_y = ((y - top).to(tl.float32) + 0.5) * tl.load(scales + image * 2 + 1) - 0.5
    from_x = tl.minimum(tl.maximum(from_x, 0.0), (own_w - 1).to(tl.float32))
    from_y = tl.minimum(tl.maximum(from_y, 0.0), (own_h - 1).to(tl.float32))
    x0, y0 = from_x.to(tl.int32), from_y.to(tl.int32)
    share_x, share_y = from_x - x0.to(tl.float32), from_y - y0.to(tl.float32)
    x1, y1 = tl.minimum(x0 + 1, own_w - 1), tl.minimum(y0 + 1, own_h - 1)
    base = levels + tl.load(starts + image)
    channel = tl.arange(0, 4)[None, :]  # together: four are stored at once
    coloured = shown[:, None] & (channel < 3)
    source = 2 - channel if SWAP else channel
    above0 = tl.load(base + ((y0 * own_w + x0) * 3)[:, None] + source, mask=coloured, other=0).to(tl.float32)
    above1 = tl.load(base + ((y0 * own_w + x1) * 3)[:, None] + source, mask=coloured, other=0).to(tl.float32)
    below0 = tl.load(base + ((y1 * own_w + x0) * 3)[:, None] + source, mask=coloured, other=0).to(tl.float32)
    below1 = tl.load(base + ((y1 * own_w + x1) * 3)[:, None] + source, mask=coloured, other=0).to(tl.float32)
    above = above0 + (above1 - above0) * share_x[:, None]
    below = below0 + (below1 - below0) * share_x[:, None]
    level = tl.where(shown[:, None], tl.floor(above + (below - above) * share_y[:, None] + 0.5), fill)
    level = tl.where(channel < 3, level / divisor, 0.0).to(inputs.dtype.element_ty)
    row = (image.to(tl.int64) * height * width + place) * CHANNELS
    tl.store(inputs + row[:, None] + channel, level, mask=inside[:, None] & (channel < CHANNELS))
