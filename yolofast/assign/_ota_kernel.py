"""The kernels of `fused_ota`, in a file of its own because importing it needs Triton."""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl

_SMALLEST_LOG = tl.constexpr(-100.0)


@triton.jit
def _log1p(x):
    """Of numbers above -1, exact for small ones."""
    u = 1.0 + x
    safe = tl.where(u == 1.0, 1.0, u - 1.0)
    return tl.where(u == 1.0, x, tl.log(u) * (x / safe))


@triton.jit
def _within(rest, reach):
    """Whether a centre is near the side it is `rest` cells from, and not at the map's border."""
    return (rest - tl.floor(rest) < reach) & (rest > 1)


@triton.jit
def candidates_kernel(
    raw_ptr, boxes_ptr, labels_ptr, real_ptr, anchors_ptr, cell_ptr, box_ptr, scores_ptr, first_ptr,
    level, anchors, G, A, height, width, stride, reach, anchor_t, s_image, s_anchor, s_row, s_column, s_channel,
    CLASSES: tl.constexpr, FAITHFUL: tl.constexpr, WITH_SCORES: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_C: tl.constexpr,
):  # fmt: skip
    """A level's columns: neighbour, anchor, box. Cell -1 is no candidate.

    Scores are, per class, what its presence costs more than its absence; behind them the cost of absence of all.
    """
    image = tl.program_id(0).to(tl.int64)
    of_level = 5 * anchors * G
    own = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = own < of_level
    neighbour, anchor, g = own // (anchors * G), own // G % anchors, own % G
    truth = boxes_ptr + (image * G + g) * 4
    real = (tl.load(real_ptr + image * G + g, inside, 0) != 0) & inside
    x, y = tl.load(truth, real, 0.0) * width, tl.load(truth + 1, real, 0.0) * height
    w, h = tl.load(truth + 2, real, 1.0) * width, tl.load(truth + 3, real, 1.0) * height
    wide = tl.load(anchors_ptr + (level * anchors + anchor) * 2, inside, 1.0)
    high = tl.load(anchors_ptr + (level * anchors + anchor) * 2 + 1, inside, 1.0)
    by_width, by_height = tl.div_rn(w, wide), tl.div_rn(h, high)
    ratio = tl.maximum(tl.maximum(by_width, tl.div_rn(1.0, by_width)), tl.maximum(by_height, tl.div_rn(1.0, by_height)))
    near = (neighbour == 0) | ((neighbour == 1) & _within(x, reach)) | ((neighbour == 2) & _within(y, reach))
    near = near | ((neighbour == 3) & _within(width - x, reach)) | ((neighbour == 4) & _within(height - y, reach))
    at_x = x + tl.where(neighbour == 1, -reach, tl.where(neighbour == 3, reach, 0.0))
    at_y = y + tl.where(neighbour == 2, -reach, tl.where(neighbour == 4, reach, 0.0))
    column = tl.minimum(tl.maximum(at_x.to(tl.int32), 0), width - 1)
    row = tl.minimum(tl.maximum(at_y.to(tl.int32), 0), height - 1)
    if not FAITHFUL:
        centre_column = tl.minimum(tl.maximum(x.to(tl.int32), 0), width - 1)
        centre_row = tl.minimum(tl.maximum(y.to(tl.int32), 0), height - 1)
        near = near & ((neighbour == 0) | (column != centre_column) | (row != centre_row))
    valid = real & near & (ratio < anchor_t)
    cell = (anchor * height + row) * width + column
    place = image * A + level * of_level + own
    tl.store(cell_ptr + place, tl.where(valid, cell, -1), inside)
    if WITH_SCORES and not FAITHFUL:
        tl.atomic_min(first_ptr + image * (anchors * height * width) + cell, level * of_level + own, valid)
    if WITH_SCORES and tl.max(valid.to(tl.int32), 0) > 0:
        source = raw_ptr + image * s_image + anchor * s_anchor + row * s_row + column * s_column
        sx = tl.sigmoid(tl.load(source, valid, 0.0).to(tl.float32))
        sy = tl.sigmoid(tl.load(source + s_channel, valid, 0.0).to(tl.float32))
        sw = tl.sigmoid(tl.load(source + 2 * s_channel, valid, 0.0).to(tl.float32)) * 2
        sh = tl.sigmoid(tl.load(source + 3 * s_channel, valid, 0.0).to(tl.float32)) * 2
        centre_x, centre_y = (sx * 2 - 0.5 + column) * stride, (sy * 2 - 0.5 + row) * stride
        half_w, half_h = sw * sw * wide * stride / 2, sh * sh * high * stride / 2
        box = box_ptr + place * 4
        tl.store(box, centre_x - half_w, valid)
        tl.store(box + 1, centre_y - half_h, valid)
        tl.store(box + 2, centre_x + half_w, valid)
        tl.store(box + 3, centre_y + half_h, valid)
        objectness = tl.sigmoid(tl.load(source + 4 * s_channel, valid, 0.0).to(tl.float32))
        absent_of_all = tl.zeros([BLOCK], tl.float32)
        for start in range(0, CLASSES, BLOCK_C):
            of_class = start + tl.arange(0, BLOCK_C)
            there = valid[:, None] & (of_class < CLASSES)[None, :]
            logit = tl.load(source[:, None] + (5 + of_class)[None, :] * s_channel, there, 0.0).to(tl.float32)
            score = tl.sqrt_rn(tl.sigmoid(logit) * objectness[:, None])
            absent = -tl.maximum(_log1p(-tl.where(there, score, 0.0)), _SMALLEST_LOG)
            present = -tl.maximum(tl.log(score), _SMALLEST_LOG)
            absent_of_all += tl.sum(absent, 1)
            tl.store(scores_ptr + place[:, None] * (CLASSES + 1) + of_class[None, :], present - absent, there)
        tl.store(scores_ptr + place * (CLASSES + 1) + CLASSES, absent_of_all, valid)


@triton.jit
def choose_kernel(
    boxes_ptr, labels_ptr, real_ptr, cell_ptr, box_ptr, scores_ptr, cost_ptr, chosen_ptr,
    G, A, across, down, CLASSES: tl.constexpr, TOPK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What every column costs one box, and which it takes: as many as it has good overlaps, the cheapest first."""
    row = tl.program_id(0).to(tl.int64)
    image = row // G
    rank = tl.arange(0, 32)
    if tl.load(real_ptr + row) == 0:
        tl.store(chosen_ptr + row * TOPK + rank, tl.full([32], 0, tl.int32) + A, rank < TOPK)
    else:
        column = tl.arange(0, BLOCK)
        inside = column < A
        place = image * A + column
        valid = tl.load(cell_ptr + place, inside, -1) >= 0
        truth = boxes_ptr + row * 4
        x, y = tl.load(truth) * across, tl.load(truth + 1) * down
        w, h = tl.load(truth + 2) * across, tl.load(truth + 3) * down
        x1, y1, x2, y2 = x - w / 2, y - h / 2, x + w / 2, y + h / 2
        box = box_ptr + place * 4
        left, top = tl.load(box, valid, 0.0), tl.load(box + 1, valid, 0.0)
        right, bottom = tl.load(box + 2, valid, 0.0), tl.load(box + 3, valid, 0.0)
        wide = tl.maximum(tl.minimum(x2, right) - tl.maximum(x1, left), 0.0)
        high = tl.maximum(tl.minimum(y2, bottom) - tl.maximum(y1, top), 0.0)
        inter = wide * high
        area = tl.maximum(x2 - x1, 0.0) * tl.maximum(y2 - y1, 0.0)
        union = area + tl.maximum(right - left, 0.0) * tl.maximum(bottom - top, 0.0) - inter
        iou = tl.div_rn(inter, tl.maximum(union, 1e-30))
        scores = scores_ptr + place * (CLASSES + 1)
        cost = tl.load(scores + CLASSES, valid, 0.0) + tl.load(scores + tl.load(labels_ptr + row), valid, 0.0)
        cost = tl.where(valid, cost - 3.0 * tl.log(iou + 1e-8), float("inf"))
        tl.store(cost_ptr + row * A + column, cost, inside)

        # How many: the sum of the best overlaps, taken one by one. Masked places are below every overlap.
        iou = tl.where(inside, tl.where(valid, iou, 0.0), -1.0)
        total, best = 0.0, 1.0
        for _ in range(TOPK):
            if best > 0.0:  # the rest adds nothing
                best = tl.max(iou, 0)
                total += tl.maximum(best, 0.0)
                lowest = tl.min(tl.where(iou == best, column, BLOCK), 0)
                iou = tl.where(column == lowest, -1.0, iou)
        k = tl.maximum(total.to(tl.int32), 1)

        # Which: the cheapest, the lower column among equals; infinite cost is no candidate.
        chosen = tl.full([32], 0, tl.int32) + A
        for turn in range(TOPK):
            if turn < k:
                cheapest = tl.min(cost, 0)
                lowest = tl.min(tl.where(cost == cheapest, column, BLOCK), 0)
                chosen = tl.where(rank == turn, tl.where(cheapest < float("inf"), lowest, A), chosen)
                cost = tl.where(column == lowest, float("inf"), cost)
        tl.store(chosen_ptr + row * TOPK + rank, chosen, rank < TOPK)


@triton.jit
def once_kernel(cell_ptr, first_ptr, A, of_level, base, cells, BLOCK: tl.constexpr):
    """Of the columns of one anchor of one cell only the lowest stays a candidate."""
    image = tl.program_id(0).to(tl.int64)
    own = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = image * A + base + own
    cell = tl.load(cell_ptr + place, own < of_level, -1)
    lowest = tl.load(first_ptr + image * cells + cell, cell >= 0, 0)
    tl.store(cell_ptr + place, -1, (cell >= 0) & (lowest != base + own))


@triton.jit
def settle_kernel(
    chosen_ptr, cost_ptr, real_ptr, cell_ptr, out_cell_ptr, out_box_ptr, out_positive_ptr, out_speaks_ptr,
    A, of_level, spread, G: tl.constexpr, LEVELS: tl.constexpr, TOPK: tl.constexpr, EVERY: tl.constexpr,
    BLOCK: tl.constexpr, OTHERS: tl.constexpr,
):  # fmt: skip
    """A column that several boxes chose goes to the cheapest of all boxes, once. The highest column of a cell speaks
    for it; EVERY says that a cell is in one column only."""
    slots: tl.constexpr = G * TOPK
    image = tl.program_id(0).to(tl.int64)
    slot = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = slot < slots
    column = tl.load(chosen_ptr + image * slots + slot, inside, A)
    taken = column < A
    cell = tl.load(cell_ptr + image * A + column, taken, -1)
    times = tl.zeros([BLOCK], tl.int32)
    earlier = tl.zeros([BLOCK], tl.int32)
    higher = tl.zeros([BLOCK], tl.int32)
    if tl.max(taken.to(tl.int32), 0) > 0:
        for start in range(0, slots, OTHERS):
            other = start + tl.arange(0, OTHERS)
            theirs = tl.load(chosen_ptr + image * slots + other, other < slots, A)
            same = (theirs[None, :] == column[:, None]) & taken[:, None]
            times += tl.sum(same.to(tl.int32), 1)
            earlier += tl.sum((same & (other[None, :] < slot[:, None])).to(tl.int32), 1)
            if not EVERY:
                their_cell = tl.load(cell_ptr + image * A + theirs, theirs < A, -2)
                above = (theirs[None, :] > column[:, None]) & (their_cell[None, :] == cell[:, None])
                above = above & (theirs[None, :] // of_level == column[:, None] // of_level)
                higher += tl.sum(above.to(tl.int32), 1)
    box = slot // TOPK
    if tl.max(times, 0) > 1:
        least = tl.full([BLOCK], float("inf"), tl.float32)
        cheapest = tl.zeros([BLOCK], tl.int32)
        for g in range(0, G):
            if tl.load(real_ptr + image * G + g) != 0:
                cost = tl.load(cost_ptr + (image * G + g) * A + column, taken, float("inf"))
                cheapest = tl.where(cost < least, g, cheapest)
                least = tl.minimum(cost, least)
        box = tl.where(times > 1, cheapest, box)
    used = taken & (earlier == 0)
    level = column // of_level
    every = tl.num_programs(0).to(tl.int64) * slots
    for one in tl.static_range(LEVELS):
        at = one * every + image * slots + slot
        positive = used & (level == one)
        tl.store(out_cell_ptr + at, tl.where(positive, cell, slot % spread).to(tl.int64), inside)
        tl.store(out_box_ptr + at, box.to(tl.int64), inside)
        tl.store(out_positive_ptr + at, positive, inside)
        tl.store(out_speaks_ptr + at, positive & (higher == 0), inside)
