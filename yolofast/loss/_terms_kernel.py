"""The kernels of `fused_terms`, in a file of its own because importing it needs Triton.

A slot is a cell that learns a box (`Assignment`). Slots of one cell are a list: `head` has the last slot that came to
a cell, `following` the one before it, -1 ends it. So what slots write into a map needs no sums in memory.
"""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def _log1p(x):
    """Of numbers above -1, exact for small ones."""
    u = 1.0 + x
    safe = tl.where(u == 1.0, 1.0, u - 1.0)
    return tl.where(u == 1.0, x, tl.log(u) * (x / safe))


@triton.jit
def _bce(x, target, positive_weight):
    """Loss and slope of binary cross-entropy with logits."""
    small = tl.exp(-tl.abs(x))
    weight = 1.0 + (positive_weight - 1.0) * target
    loss = (1.0 - target) * x + weight * (_log1p(small) + tl.maximum(-x, 0.0))
    return loss, (1.0 - target) - weight * (1.0 - tl.sigmoid(x))


@triton.jit
def _atan(x):
    """Of numbers of at least 0, in float32's precision: halves of the angle, then a polynomial."""
    steep = x > 2.414213562373095
    medium = (x > 0.4142135623730950) & ~steep
    reduced = tl.where(steep, -1.0 / tl.where(steep, x, 1.0), tl.where(medium, (x - 1.0) / (x + 1.0), x))
    offset = tl.where(steep, 1.5707963267948966, tl.where(medium, 0.7853981633974483, 0.0))
    z = reduced * reduced
    series = ((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1
    return offset + series * z * reduced + reduced


@triton.jit
def _end(first, second):
    """How far the smaller of two moves when the first does."""
    return tl.where(first < second, 1.0, tl.where(first == second, 0.5, 0.0))


@triton.jit
def _overlap(x, y, w, h, tx, ty, tw, th, EPS: tl.constexpr):
    """CIoU and its slopes for the first box; formulas are those of `boxes.ciou_cxcywh`."""
    left, right, top, bottom = x - w / 2, x + w / 2, y - h / 2, y + h / 2
    tleft, tright, ttop, tbottom = tx - tw / 2, tx + tw / 2, ty - th / 2, ty + th / 2
    inner_w, inner_h = (
        tl.minimum(right, tright) - tl.maximum(left, tleft),
        tl.minimum(bottom, tbottom) - tl.maximum(top, ttop),
    )
    wide, high = tl.maximum(inner_w, 0.0), tl.maximum(inner_h, 0.0)
    inter = wide * high
    union = w * (h + EPS) + tw * (th + EPS) - inter + EPS
    ratio = inter / union
    overlap = tl.minimum(ratio, 1.0)
    # Slopes of the intersection's sides for the box's ends.
    open_w, open_h = inner_w >= 0, inner_h >= 0
    at_right, at_left = tl.where(open_w, _end(right, tright), 0.0), tl.where(open_w, -_end(-left, -tleft), 0.0)
    at_bottom, at_top = tl.where(open_h, _end(bottom, tbottom), 0.0), tl.where(open_h, -_end(-top, -ttop), 0.0)
    inter_x, inter_y = (at_right + at_left) * high, (at_bottom + at_top) * wide
    inter_w, inter_h = (at_right - at_left) / 2 * high, (at_bottom - at_top) / 2 * wide
    free = tl.where(ratio <= 1.0, 1.0 / (union * union), 0.0)
    slope_x = (inter_x * union + inter * inter_x) * free
    slope_y = (inter_y * union + inter * inter_y) * free
    slope_w = (inter_w * union - inter * (h + EPS - inter_w)) * free
    slope_h = (inter_h * union - inter * (w - inter_h)) * free
    # The distance of the centres over the diagonal around both boxes, squared.
    outer_w, outer_h = (
        tl.maximum(right, tright) - tl.minimum(left, tleft),
        tl.maximum(bottom, tbottom) - tl.minimum(top, ttop),
    )
    dx, dy = left + right - tleft - tright, top + bottom - ttop - tbottom
    diagonal = outer_w * outer_w + outer_h * outer_h + EPS
    apart = (dx * dx + dy * dy) / 4
    distance = apart / diagonal
    past_right, past_left = _end(-right, -tright), -_end(left, tleft)
    past_bottom, past_top = _end(-bottom, -tbottom), -_end(top, ttop)
    slope_x -= (dx - distance * 2 * outer_w * (past_right + past_left)) / diagonal
    slope_y -= (dy - distance * 2 * outer_h * (past_bottom + past_top)) / diagonal
    slope_w += distance * 2 * outer_w * (past_right - past_left) / 2 / diagonal
    slope_h += distance * 2 * outer_h * (past_bottom - past_top) / 2 / diagonal
    # The difference of the aspect ratios.
    quotient = w / (h + EPS)
    angles = _atan(tw / (th + EPS)) - _atan(quotient)
    aspect = 0.4052847345693511 * angles * angles
    weight = aspect / (aspect - overlap + (1.0 + EPS))
    along = weight * 0.8105694691387022 * angles / (1.0 + quotient * quotient) / (h + EPS)
    return overlap - distance - weight * aspect, slope_x, slope_y, slope_w + along, slope_h - along * quotient


@triton.jit
def slots_kernel(
    raw_ptr, cell_ptr, box_ptr, positive_ptr, boxes_ptr, labels_ptr, anchors_ptr, count_ptr,
    out_ptr, quality_ptr, slope_ptr, head_ptr, following_ptr,
    slots, level, anchors, G, height, width, s_image, s_anchor, s_row, s_column, s_channel, absent, positive_weight,
    FIRST: tl.constexpr, CLASSES: tl.constexpr, EPS: tl.constexpr, BLOCK: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Box and class terms of a level's slots and their slopes, row by row. FIRST is the channel of objectness."""
    image = tl.program_id(0).to(tl.int64)
    slot = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = slot < slots
    at = image * slots + slot
    used = tl.load(positive_ptr + at, inside, 0) != 0
    tl.store(out_ptr + at, tl.zeros([BLOCK], tl.float32), inside)
    tl.store(out_ptr + tl.num_programs(0) * slots + at, tl.zeros([BLOCK], tl.float32), inside)
    if tl.max(used.to(tl.int32), 0) > 0:
        area = height * width
        cell = tl.load(cell_ptr + at, used, 0)
        anchor, place = cell // area, cell % area
        row, column = place // width, place % width
        source = raw_ptr + image * s_image + anchor * s_anchor + row * s_row + column * s_column
        size_x = tl.load(anchors_ptr + (level * anchors + anchor) * 2, used, 1.0)
        size_y = tl.load(anchors_ptr + (level * anchors + anchor) * 2 + 1, used, 1.0)
        box = tl.load(box_ptr + at, used, 0)
        truth = boxes_ptr + (image * G + box) * 4
        tx = tl.load(truth, used, 0.0) * width - column
        ty = tl.load(truth + 1, used, 0.0) * height - row
        tw, th = tl.load(truth + 2, used, 1.0) * width, tl.load(truth + 3, used, 1.0) * height
        sx = tl.sigmoid(tl.load(source, used, 0.0).to(tl.float32))
        sy = tl.sigmoid(tl.load(source + s_channel, used, 0.0).to(tl.float32))
        sw = tl.sigmoid(tl.load(source + 2 * s_channel, used, 0.0).to(tl.float32))
        sh = tl.sigmoid(tl.load(source + 3 * s_channel, used, 0.0).to(tl.float32))
        overlap, by_x, by_y, by_w, by_h = _overlap(
            sx * 2 - 0.5, sy * 2 - 0.5, 4 * sw * sw * size_x, 4 * sh * sh * size_y, tx, ty, tw, th, EPS
        )
        count = tl.load(count_ptr + level)
        tl.store(out_ptr + at, (1.0 - overlap) / count, used)
        tl.store(quality_ptr + at, tl.maximum(overlap, 0.0), used)
        slope = slope_ptr + at * (FIRST + 1 + CLASSES)
        tl.store(slope, -by_x * 2 * sx * (1 - sx) / count, used)
        tl.store(slope + 1, -by_y * 2 * sy * (1 - sy) / count, used)
        tl.store(slope + 2, -by_w * 8 * sw * sw * (1 - sw) * size_x / count, used)
        tl.store(slope + 3, -by_h * 8 * sh * sh * (1 - sh) * size_y / count, used)
        if CLASSES > 1:
            label = tl.load(labels_ptr + image * G + box, used, 0)
            share = count * CLASSES
            total = tl.zeros([BLOCK], tl.float32)
            for start in range(0, CLASSES, BLOCK_C):
                of_class = start + tl.arange(0, BLOCK_C)
                there = used[:, None] & (of_class < CLASSES)[None, :]
                logits = source[:, None] + (FIRST + 1 + of_class)[None, :] * s_channel
                x = tl.load(logits, there, 0.0).to(tl.float32)
                target = tl.where(of_class[None, :] == label[:, None], 1.0 - absent, absent)
                loss, by = _bce(x, target, positive_weight)
                total += tl.sum(tl.where(there, loss, 0.0), 1)
                tl.store(slope[:, None] + (FIRST + 1 + of_class)[None, :], by / share, there)
            tl.store(out_ptr + tl.num_programs(0) * slots + at, total / share, used)
        before = tl.atomic_xchg(head_ptr + image * (anchors * area) + cell, at.to(tl.int32), used)
        tl.store(following_ptr + at, before, used)


@triton.jit
def objectness_kernel(
    raw_ptr, head_ptr, following_ptr, value_ptr, speaks_ptr, target_ptr, sums_ptr,
    cells, area, width, s_image, s_anchor, s_row, s_column, s_channel, gr, positive_weight, share,
    FIRST: tl.constexpr, BEST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What each cell's objectness should be, and the loss, summed by block."""
    image = tl.program_id(0).to(tl.int64)
    cell = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cell < cells
    slot = tl.load(head_ptr + image * cells + cell, inside, -1)
    target = tl.zeros([BLOCK], tl.float32)
    while tl.max(slot, 0) >= 0:
        there = slot >= 0
        value = (1.0 - gr) + gr * tl.load(value_ptr + slot, there, 0.0)
        if not BEST:
            there = there & (tl.load(speaks_ptr + slot, there, 0) != 0)
        target = tl.where(there, tl.maximum(target, value), target)
        slot = tl.load(following_ptr + slot, slot >= 0, -1)
    tl.store(target_ptr + image * cells + cell, target, inside)
    anchor, place = cell // area, cell % area
    where = image * s_image + anchor * s_anchor + (place // width) * s_row + (place % width) * s_column
    x = tl.load(raw_ptr + where + FIRST * s_channel, inside, 0.0).to(tl.float32)
    loss, _ = _bce(x, target, positive_weight)
    tl.store(sums_ptr + image * tl.num_programs(1) + tl.program_id(1), tl.sum(tl.where(inside, loss, 0.0), 0) * share)


@triton.jit
def gradient_kernel(
    raw_ptr, gradient_ptr, head_ptr, following_ptr, slope_ptr, target_ptr, box_ptr, objectness_ptr, classes_ptr,
    numbers, cells, area, positive_weight, share,
    PER_PLACE: tl.constexpr, PITCH: tl.constexpr, FIRST: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of a map, number by number as they lie in memory: PITCH from one place to the next, with the rows
    of PER_PLACE anchors side by side, or of one where anchors are maps of their own. 0 behind them."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row, number = at // PITCH, at % PITCH
    inside = (at < numbers) & (number < PER_PLACE * CHANNELS)
    channel = number % CHANNELS
    if PER_PLACE > 1:
        row = row // area * cells + number // CHANNELS * area + row % area
    of_slots = inside & (channel != FIRST)
    slot = tl.load(head_ptr + row, of_slots, -1)
    total = tl.zeros([BLOCK], tl.float32)
    while tl.max(slot, 0) >= 0:
        there = slot >= 0
        total += tl.load(slope_ptr + slot.to(tl.int64) * CHANNELS + channel, there, 0.0)
        slot = tl.load(following_ptr + slot, there, -1)
    total *= tl.where(channel < FIRST, tl.load(box_ptr), tl.load(classes_ptr))
    mine = inside & (channel == FIRST)
    x = tl.load(raw_ptr + at, mine, 0.0).to(tl.float32)
    _, by = _bce(x, tl.load(target_ptr + row, mine, 0.0), positive_weight)
    total = tl.where(mine, by * share * tl.load(objectness_ptr), total)
    tl.store(gradient_ptr + at, tl.where(inside, total, 0.0).to(gradient_ptr.dtype.element_ty), at < numbers)
