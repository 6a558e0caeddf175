"""The kernel of `render_triton`, in a file of its own because importing it needs Triton.

`render_torch` is the same step by step; the comments there say why.
"""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def _look_up(data, tiles, starts, count, copy, masks, canvas_width, canvas_height, x, y, FILL: tl.constexpr):
    """Blue, green and red of canvas pixels; grey where no tile lies."""
    if copy >= 0:
        on_canvas = (x >= 0) & (x < canvas_width) & (y >= 0) & (y < canvas_height)
        copied = tl.load(masks + copy + y.to(tl.int64) * canvas_width + x, mask=on_canvas, other=0)
        x = tl.where(copied > 0, canvas_width - 1 - x, x)
    place = tl.full(x.shape, -1, tl.int64)
    t = 0
    while t < count:
        tile = tiles + t * 7
        inside = (x >= tl.load(tile)) & (y >= tl.load(tile + 1)) & (x < tl.load(tile + 2)) & (y < tl.load(tile + 3))
        offset = (y - tl.load(tile + 5)) * tl.load(tile + 6) + (x - tl.load(tile + 4))
        place = tl.where(inside, tl.load(starts + t) + offset.to(tl.int64) * 3, place)
        t += 1
    there = place >= 0
    blue = tl.load(data + place, mask=there, other=FILL).to(tl.float32)
    green = tl.load(data + place + 1, mask=there, other=FILL).to(tl.float32)
    red = tl.load(data + place + 2, mask=there, other=FILL).to(tl.float32)
    return blue, green, red


@triton.jit
def _view(
    data, view, inverse, tiles, starts, counts, copies, masks, canvas, height, x, y,
    TILES: tl.constexpr, FILL: tl.constexpr,
):  # fmt: skip
    """Rounded levels of one view at output pixels x, y."""
    m = inverse + view * 9
    depth = tl.load(m + 6) * x + tl.load(m + 7) * y + tl.load(m + 8)
    at_x = (tl.load(m) * x + tl.load(m + 1) * y + tl.load(m + 2)) / depth
    at_y = (tl.load(m + 3) * x + tl.load(m + 4) * y + tl.load(m + 5)) / depth
    left, top = tl.floor(at_x), tl.floor(at_y)
    across, down = at_x - left, at_y - top
    x0, y0 = left.to(tl.int32), top.to(tl.int32)
    tile, start = tiles + view * (TILES * 7), starts + view * TILES
    count, copy = tl.load(counts + view), tl.load(copies + view)
    canvas_width, canvas_height = tl.load(canvas + view), 2 * height
    b00, g00, r00 = _look_up(data, tile, start, count, copy, masks, canvas_width, canvas_height, x0, y0, FILL)
    b01, g01, r01 = _look_up(data, tile, start, count, copy, masks, canvas_width, canvas_height, x0 + 1, y0, FILL)
    b10, g10, r10 = _look_up(data, tile, start, count, copy, masks, canvas_width, canvas_height, x0, y0 + 1, FILL)
    b11, g11, r11 = _look_up(data, tile, start, count, copy, masks, canvas_width, canvas_height, x0 + 1, y0 + 1, FILL)
    blue = (b00 * (1 - across) + b01 * across) * (1 - down) + (b10 * (1 - across) + b11 * across) * down
    green = (g00 * (1 - across) + g01 * across) * (1 - down) + (g10 * (1 - across) + g11 * across) * down
    red = (r00 * (1 - across) + r01 * across) * (1 - down) + (r10 * (1 - across) + r11 * across) * down
    return tl.floor(blue + 0.5), tl.floor(green + 0.5), tl.floor(red + 0.5)


@triton.jit
def _modulo(a, b: tl.constexpr):
    return a - tl.floor(a / b) * b


@triton.jit
def _channel(hue, saturation, value, OFFSET: tl.constexpr, WHOLE: tl.constexpr):
    away = _modulo(hue + OFFSET, 180.0)
    lacking = tl.minimum(tl.maximum(tl.minimum(away, 120 - away), 0.0), 30.0)
    return tl.floor(value - value * saturation * lacking / WHOLE + 0.5 / WHOLE)


@triton.jit
def _coloured(
    blue, green, red, by_hue, by_saturation, by_value, ADDITIVE: tl.constexpr, HALF: tl.constexpr, WHOLE: tl.constexpr
):
    value = tl.maximum(tl.maximum(blue, green), red)
    spread = value - tl.minimum(tl.minimum(blue, green), red)
    saturation = tl.floor(255 * spread / tl.maximum(value, 1.0) + HALF)
    sector = tl.where(
        value == red, green - blue, tl.where(value == green, blue - red + 2 * spread, red - green + 4 * spread)
    )
    hue = tl.floor(30 * sector / tl.maximum(spread, 1.0) + HALF)
    hue = tl.where(hue < 0, hue + 180, hue)
    if ADDITIVE:
        hue = _modulo(hue + by_hue, 180.0)
        saturation, value = saturation + by_saturation, value + by_value
    else:
        hue = tl.floor(_modulo(hue * by_hue, 180.0))
        saturation, value = saturation * by_saturation, value * by_value
    saturation = tl.floor(tl.minimum(tl.maximum(saturation, 0.0), 255.0))
    value = tl.floor(tl.minimum(tl.maximum(value, 0.0), 255.0))
    return (
        _channel(hue, saturation, value, 30, WHOLE),
        _channel(hue, saturation, value, 90, WHOLE),
        _channel(hue, saturation, value, 150, WHOLE),
    )


@triton.jit
def _paste(data, masks, pastes, widths, sources, p, x, y, valid, blue, green, red):
    """One object over the levels, where its mask says so."""
    paste = pastes + p * 8
    width, height = tl.load(paste + 2), tl.load(paste + 3)
    crop_width, crop_height = tl.load(paste + 6), tl.load(paste + 7)
    px, py = x - tl.load(paste), y - tl.load(paste + 1)
    inside = valid & (px >= 0) & (px < width) & (py >= 0) & (py < height)
    covered = tl.load(masks + tl.load(sources + p * 2 + 1) + py * width + px, mask=inside, other=0) > 0
    at_x = (px + 0.5) * (crop_width / width) - 0.5
    at_y = (py + 0.5) * (crop_height / height) - 0.5
    at_x = tl.minimum(tl.maximum(at_x, 0.0), (crop_width - 1).to(tl.float32))
    at_y = tl.minimum(tl.maximum(at_y, 0.0), (crop_height - 1).to(tl.float32))
    x0, y0 = tl.floor(at_x).to(tl.int32), tl.floor(at_y).to(tl.int32)
    across, down = at_x - x0, at_y - y0
    x1, y1 = tl.minimum(x0 + 1, crop_width - 1), tl.minimum(y0 + 1, crop_height - 1)
    stride = tl.load(widths + p)
    origin = data + tl.load(sources + p * 2) + (tl.load(paste + 5).to(tl.int64) * stride + tl.load(paste + 4)) * 3
    upper_left, upper_right = origin + (y0 * stride + x0) * 3, origin + (y0 * stride + x1) * 3
    lower_left, lower_right = origin + (y1 * stride + x0) * 3, origin + (y1 * stride + x1) * 3
    new_blue = _mix(upper_left, upper_right, lower_left, lower_right, across, down, covered)
    new_green = _mix(upper_left + 1, upper_right + 1, lower_left + 1, lower_right + 1, across, down, covered)
    new_red = _mix(upper_left + 2, upper_right + 2, lower_left + 2, lower_right + 2, across, down, covered)
    return (
        tl.where(covered, new_blue, blue),
        tl.where(covered, new_green, green),
        tl.where(covered, new_red, red),
    )


@triton.jit
def _mix(upper_left, upper_right, lower_left, lower_right, across, down, covered):
    upper = tl.load(upper_left, mask=covered, other=0).to(tl.float32) * (1 - across)
    upper += tl.load(upper_right, mask=covered, other=0).to(tl.float32) * across
    lower = tl.load(lower_left, mask=covered, other=0).to(tl.float32) * (1 - across)
    lower += tl.load(lower_right, mask=covered, other=0).to(tl.float32) * across
    return tl.floor(upper * (1 - down) + lower * down + 0.5)


@triton.jit
def render_kernel(
    data, out, inverse, blends, colours, flips, counts, canvas, tiles, starts, copies, paste_starts, pastes,
    paste_widths, paste_sources, masks, width, height, stride_b, stride_c, stride_y, stride_x, gain,
    ADDITIVE: tl.constexpr, RGB: tl.constexpr, TILES: tl.constexpr, FILL: tl.constexpr, EQUAL: tl.constexpr,
    HALF: tl.constexpr, WHOLE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(1)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = pixel < width * height
    out_x, out_y = pixel % width, pixel // width
    x = tl.where(tl.load(flips + b * 2 + 1) > 0, width - 1 - out_x, out_x)
    y = tl.where(tl.load(flips + b * 2) > 0, height - 1 - out_y, out_y)

    blue, green, red = _view(
        data, b * 2, inverse, tiles, starts, counts, copies, masks, canvas, height, x, y, TILES, FILL
    )
    share = tl.load(blends + b)
    if share < 1:
        blue2, green2, red2 = _view(
            data, b * 2 + 1, inverse, tiles, starts, counts, copies, masks, canvas, height, x, y, TILES, FILL
        )
        blue = tl.floor(blue * share + blue2 * (1 - share) + EQUAL)
        green = tl.floor(green * share + green2 * (1 - share) + EQUAL)
        red = tl.floor(red * share + red2 * (1 - share) + EQUAL)

    colour = colours + b * 3
    by_hue, by_saturation, by_value = tl.load(colour), tl.load(colour + 1), tl.load(colour + 2)
    same = 0.0 if ADDITIVE else 1.0
    if (by_hue != same) | (by_saturation != same) | (by_value != same):
        blue, green, red = _coloured(blue, green, red, by_hue, by_saturation, by_value, ADDITIVE, HALF, WHOLE)

    p = tl.load(paste_starts + b)
    end = tl.load(paste_starts + b + 1)
    while p < end:
        blue, green, red = _paste(data, masks, pastes, paste_widths, paste_sources, p, x, y, valid, blue, green, red)
        p += 1

    at = out + b.to(tl.int64) * stride_b + out_y * stride_y + out_x * stride_x
    first, last = (red, blue) if RGB else (blue, red)
    kind = out.dtype.element_ty
    tl.store(at, (first * gain).to(kind), mask=valid)
    tl.store(at + stride_c, (green * gain).to(kind), mask=valid)
    tl.store(at + 2 * stride_c, (last * gain).to(kind), mask=valid)
