"""Pixels of a plan in plain torch, on any device, by inverse mapping: where on the canvas does an output pixel lie?

The four neighbours there are looked up in their tiles and mixed; no canvas is ever made. Levels are rounded to whole
numbers where published trainers hold bytes, so that all renderers agree. This is the readable form of the Triton
kernel, and what it is tested against.
"""

import torch
from torch import Tensor

from yolofast.augment.plan import FILL, Plan
from yolofast.augment.render_table import RenderTable, build_table
from yolofast.pixels import PackedImages

# Levels are cut or rounded where exact arithmetic often gives a whole number or a half. What is added in front of it is
# less than the distance to the next possible value and more than a rounding error, so that all devices cut alike.
EQUAL = 1 / 1024
HALF = 0.501
WHOLE = 30 * 255.0


def render(plan: Plan, images: PackedImages, *, rgb: bool = True) -> Tensor:
    """[B, 3, height, width] uint8 on the device of the images."""
    table = build_table(plan, images.starts, images.sizes).to(images.data.device)
    return render_table(table, images.data, plan.width, plan.height, plan.recipe.style == "yolox", rgb=rgb)


def render_table(table: RenderTable, data: Tensor, width: int, height: int, additive: bool, *, rgb: bool) -> Tensor:
    x, y = _flipped_grid(table, width, height)
    levels = _view(table, data, 0, x, y)
    if bool((table.tiles_BV[:, 1] > 0).any()):
        share = table.blend_B[:, None, None, None]
        mixed = (levels * share + _view(table, data, 1, x, y) * (1 - share) + EQUAL).floor()
        levels = torch.where(share < 1, mixed, levels)
    levels = change_colour(levels, table.colour_B3, additive)
    first, last = table.paste_start_B1[[0, -1]].tolist()
    for paste in range(first, last):
        levels = _paste(levels, table, data, paste, x, y)
    levels = levels.flip(-1) if rgb else levels
    return levels.permute(0, 3, 1, 2).to(torch.uint8).contiguous(memory_format=torch.channels_last)


def _flipped_grid(table: RenderTable, width: int, height: int) -> tuple[Tensor, Tensor]:
    """[B, H, W] where each output pixel was before the flips."""
    device = table.blend_B.device
    down, right = table.flip_B2[:, :, None, None].unbind(1)
    y = torch.arange(height, device=device)[None, :, None]
    x = torch.arange(width, device=device)[None, None, :]
    x = torch.where(right > 0, width - 1 - x, x)
    y = torch.where(down > 0, height - 1 - y, y)
    shape = (len(right), height, width)
    return x.expand(shape), y.expand(shape)


def _view(table: RenderTable, data: Tensor, v: int, x: Tensor, y: Tensor) -> Tensor:
    """[B, H, W, 3] levels of one view, rounded."""
    m = table.inverse_BV9[:, v, :, None, None].unbind(1)
    depth = m[6] * x + m[7] * y + m[8]
    at_x = (m[0] * x + m[1] * y + m[2]) / depth
    at_y = (m[3] * x + m[4] * y + m[5]) / depth
    left, top = at_x.floor(), at_y.floor()
    right_share, bottom_share = (at_x - left)[..., None], (at_y - top)[..., None]
    x0, y0 = left.int(), top.int()
    upper = _look_up(table, data, v, x0, y0) * (1 - right_share) + _look_up(table, data, v, x0 + 1, y0) * right_share
    y1 = y0 + 1
    lower = _look_up(table, data, v, x0, y1) * (1 - right_share) + _look_up(table, data, v, x0 + 1, y1) * right_share
    return (upper * (1 - bottom_share) + lower * bottom_share + 0.5).floor()


def _look_up(table: RenderTable, data: Tensor, v: int, x: Tensor, y: Tensor) -> Tensor:
    """[B, H, W, 3] levels of canvas pixels; grey where there is no tile."""
    x = _mirrored_where_copied(table, v, x, y)
    place = torch.full(x.shape, -1, dtype=torch.int64, device=x.device)
    for t in range(int(table.tiles_BV[:, v].max())):
        x1, y1, x2, y2, left, top, width = table.tile_BVT7[:, v, t, :, None, None].unbind(1)
        inside = (x >= x1) & (x < x2) & (y >= y1) & (y < y2)
        offset = ((y - top) * width + (x - left)).long() * 3 + table.start_BVT[:, v, t, None, None]
        place = torch.where(inside, offset, place)
    channels = torch.arange(3, device=x.device)
    levels = data[place.clamp(min=0)[..., None] + channels].float()
    return torch.where(place[..., None] >= 0, levels, float(FILL))


def _mirrored_where_copied(table: RenderTable, v: int, x: Tensor, y: Tensor) -> Tensor:
    start = table.copy_BV[:, v, None, None]
    if not bool((start >= 0).any()):
        return x
    width = table.canvas_BV[:, v, None, None]
    # A canvas is twice the output, so its height follows from the output's.
    height = 2 * x.shape[1]
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height) & (start >= 0)
    copied = table.masks[torch.where(inside, start + y.long() * width + x, 0)] > 0
    return torch.where(inside & copied, width - 1 - x, x)


def _paste(levels: Tensor, table: RenderTable, data: Tensor, paste: int, x: Tensor, y: Tensor) -> Tensor:
    """One object onto its image, resized as OpenCV does: outer edges stay outer edges."""
    b = int(torch.searchsorted(table.paste_start_B1, paste, right=True)) - 1
    left, top, width, height, crop_left, crop_top, crop_width, crop_height = table.paste_P8[paste].tolist()
    start, mask_start = table.paste_source_P2[paste].tolist()
    stride = int(table.paste_width_P[paste])
    px, py = x[b] - left, y[b] - top
    inside = (px >= 0) & (px < width) & (py >= 0) & (py < height)
    covered = inside & (table.masks[torch.where(inside, mask_start + py * width + px, 0)] > 0)
    at_x = ((px + 0.5) * (crop_width / width) - 0.5).clamp(0, crop_width - 1)
    at_y = ((py + 0.5) * (crop_height / height) - 0.5).clamp(0, crop_height - 1)
    x0, y0 = at_x.floor().long(), at_y.floor().long()
    right_share, bottom_share = (at_x - x0)[..., None], (at_y - y0)[..., None]
    x1, y1 = (x0 + 1).clamp(max=crop_width - 1), (y0 + 1).clamp(max=crop_height - 1)

    def look_up(column: Tensor, row: Tensor) -> Tensor:
        place = start + ((crop_top + row) * stride + crop_left + column) * 3
        return data[place[..., None] + torch.arange(3, device=data.device)].float()

    upper = look_up(x0, y0) * (1 - right_share) + look_up(x1, y0) * right_share
    lower = look_up(x0, y1) * (1 - right_share) + look_up(x1, y1) * right_share
    pasted = (upper * (1 - bottom_share) + lower * bottom_share + 0.5).floor()
    levels = levels.clone()
    levels[b] = torch.where(covered[..., None], pasted, levels[b])
    return levels


def change_colour(levels: Tensor, change_B3: Tensor, additive: bool) -> Tensor:
    """Hue, saturation and value of levels `[B, H, W, B G R]` changed, with OpenCV's 8-bit rounding in between."""
    hue, saturation, value = _to_hsv(levels)
    by_hue, by_saturation, by_value = change_B3[:, :, None, None].unbind(1)
    if additive:
        hue = (hue + by_hue) % 180
        saturation, value = (saturation + by_saturation).clamp(0, 255), (value + by_value).clamp(0, 255)
    else:
        hue = ((hue * by_hue) % 180).floor()
        saturation, value = (saturation * by_saturation).clamp(0, 255).floor(), (value * by_value).clamp(0, 255).floor()
    unchanged = (change_B3 == (0 if additive else 1)).all(1)[:, None, None, None]
    return torch.where(unchanged, levels, _to_bgr(hue, saturation, value))


def _to_hsv(levels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hue 0 … 179, saturation and value 0 … 255, all whole."""
    blue, green, red = levels.unbind(-1)
    value = levels.amax(-1)
    spread = value - levels.amin(-1)
    saturation = (255 * spread / value.clamp(min=1) + HALF).floor()
    sector = torch.where(
        value == red, green - blue, torch.where(value == green, blue - red + 2 * spread, red - green + 4 * spread)
    )
    hue = (30 * sector / spread.clamp(min=1) + HALF).floor()
    return torch.where(hue < 0, hue + 180, hue), saturation, value


def _to_bgr(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """[…, B G R], cut to whole levels as OpenCV's vectorised code does (the few pixels left over it rounds)."""

    def channel(offset: int) -> Tensor:
        # How far the hue is from this colour: full within a sixth of the circle (30 steps), none beyond a third.
        away = (hue + offset) % 180
        lacking = torch.minimum(away, 120 - away).clamp(0, 30)
        # Whole numbers below 2²⁴ up to here, so nothing is rounded before the division.
        return value - value * saturation * lacking / WHOLE

    return (torch.stack((channel(30), channel(90), channel(150)), dim=-1) + 0.5 / WHOLE).floor()
