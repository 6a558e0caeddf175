"""The kernels of `fixed_candidates`, before and behind suppression, in a file of its own: importing it needs Triton."""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def score_kernel(
    raw_ptr, anchors_ptr, wanted_ptr, scores_ptr, labels_ptr, boxes_ptr,
    total, first, height, width, by_image, by_anchor, by_row, by_column, conf, pixels, largest_log_size,
    ANCHORS: tl.constexpr, CLASSES: tl.constexpr, POINTS: tl.constexpr, CHOOSES: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Of each row of a raw map the score of its best class, 0 if it does not count; of those that do, class and box.

    Rows are taken as they lie in memory, anchor by anchor of a cell, and written where `decode` has them.
    """
    image = tl.program_id(1).to(tl.int64)
    number = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = number < height * width * ANCHORS
    cell, anchor = number // ANCHORS, number % ANCHORS
    y, x = cell // width, cell % width
    at = raw_ptr + image * by_image + anchor * by_anchor + y * by_row + x * by_column
    objectness = tl.sigmoid(tl.load(at + 4, inside, float("-inf")).to(tl.float32))
    if CLASSES == 1:
        score, label = objectness, tl.zeros([ROWS], tl.int32)
        if POINTS:
            score = objectness * tl.sigmoid(tl.load(at + 5, inside, float("-inf")).to(tl.float32))
        usable = inside & (score > conf)
    else:
        one = tl.arange(0, BLOCK)
        known = (inside & (objectness > conf))[:, None] & (one < CLASSES)[None, :]  # the rest is not even read
        logits = tl.load(at[:, None] + 5 + one[None, :], known, float("-inf")).to(tl.float32)
        scores = tl.where(known, tl.sigmoid(logits) * objectness[:, None], -1.0)
        score, label = tl.max(scores, 1, return_indices=True, return_indices_tie_break_left=True)
        broken = tl.max((logits != logits).to(tl.int32), 1)
        usable = inside & (score > conf) & (broken == 0)
    if CHOOSES:
        usable = usable & (tl.load(wanted_ptr + label, usable, 0) > 0)
    x0, y0 = tl.load(at, usable, 0.0).to(tl.float32), tl.load(at + 1, usable, 0.0).to(tl.float32)
    x1, y1 = tl.load(at + 2, usable, 0.0).to(tl.float32), tl.load(at + 3, usable, 0.0).to(tl.float32)
    if POINTS:
        centre_x, centre_y = (x0 + x) * pixels, (y0 + y) * pixels
        box_w = tl.exp(tl.minimum(x1, largest_log_size, propagate_nan=tl.PropagateNan.ALL)) * pixels
        box_h = tl.exp(tl.minimum(y1, largest_log_size, propagate_nan=tl.PropagateNan.ALL)) * pixels
    else:
        centre_x = (tl.sigmoid(x0) * 2 - 0.5 + x) * pixels
        centre_y = (tl.sigmoid(y0) * 2 - 0.5 + y) * pixels
        side_w, side_h = tl.sigmoid(x1) * 2, tl.sigmoid(y1) * 2
        box_w = side_w * side_w * tl.load(anchors_ptr + anchor * 2)
        box_h = side_h * side_h * tl.load(anchors_ptr + anchor * 2 + 1)
    usable = usable & _is_finite(centre_x) & _is_finite(centre_y) & _is_finite(box_w) & _is_finite(box_h)
    row = image * total + first + anchor * height * width + cell
    tl.store(scores_ptr + row, tl.where(usable, score, 0.0), inside)
    tl.store(labels_ptr + row, label.to(tl.int32), usable)
    tl.store(boxes_ptr + row * 4, centre_x - box_w / 2, usable)
    tl.store(boxes_ptr + row * 4 + 1, centre_y - box_h / 2, usable)
    tl.store(boxes_ptr + row * 4 + 2, centre_x + box_w / 2, usable)
    tl.store(boxes_ptr + row * 4 + 3, centre_y + box_h / 2, usable)


@triton.jit
def _is_finite(number):
    return tl.abs(number) < float("inf")


@triton.jit
def choose_kernel(
    scores_ptr, keys_ptr, entered_ptr, counts_ptr, total, most, CHUNKS: tl.constexpr, BLOCK: tl.constexpr
):
    """Of an image: the keys of at least its `most` best rows, and more only where scores are equal; in no order.

    A key is a score's bits above the row's place, so that none are equal. The score that is just good enough is found
    bit by bit: positive floats are ordered as their bits are.
    """
    image = tl.program_id(0).to(tl.int64)
    scores_ptr += image * total
    keys_ptr += image * total
    place = tl.arange(0, BLOCK)
    many = tl.zeros([BLOCK], tl.int32)
    for chunk in range(CHUNKS):
        many += (_bits(scores_ptr, chunk * BLOCK + place, total) > 0).to(tl.int32)
    least = tl.full((), 1, tl.int32)
    if tl.sum(many, 0) > most:
        step = tl.full((), 1 << 29, tl.int32)  # a score is at most 1, whose bits are below 2³⁰
        least = tl.full((), 0, tl.int32)
        while step > 0:
            many = tl.zeros([BLOCK], tl.int32)
            for chunk in range(CHUNKS):
                many += (_bits(scores_ptr, chunk * BLOCK + place, total) >= least + step).to(tl.int32)
            least = tl.where(tl.sum(many, 0) >= most, least + step, least)
            step = step // 2
    entered = tl.full((), 0, tl.int32)
    for chunk in range(CHUNKS):
        row = chunk * BLOCK + place
        bits = _bits(scores_ptr, row, total)
        enters = (bits >= least).to(tl.int32)
        slot = entered + tl.cumsum(enters, 0) - 1
        tl.store(keys_ptr + slot, (bits.to(tl.int64) << 32) - row, enters > 0)
        entered += tl.sum(enters, 0)
    tl.store(entered_ptr + image, entered)
    tl.store(counts_ptr + image, tl.minimum(entered, most).to(tl.int64))


@triton.jit
def _bits(scores_ptr, row, total):
    return tl.load(scores_ptr + row, row < total, 0.0).to(tl.int32, bitcast=True)


@triton.jit
def rank_kernel(
    keys_ptr, entered_ptr, scores_ptr, labels_ptr, boxes_ptr, best_scores_ptr, best_labels_ptr, best_boxes_ptr,
    total, most, MINE: tl.constexpr, OTHERS: tl.constexpr,
):  # fmt: skip
    """Each key's place is the number of greater ones: its row is written there."""
    image = tl.program_id(1).to(tl.int64)
    entered = tl.load(entered_ptr + image)
    mine = tl.program_id(0) * MINE + tl.arange(0, MINE)
    keys_ptr += image * total
    key = tl.load(keys_ptr + mine, mine < entered, 0)
    rank = tl.zeros([MINE], tl.int32)
    start = tl.where(tl.program_id(0) * MINE < entered, 0, entered)
    while start < entered:
        other = start + tl.arange(0, OTHERS)
        greater = tl.load(keys_ptr + other, other < entered, 0)[None, :] > key[:, None]
        rank += tl.sum(greater.to(tl.int32), 1)
        start += OTHERS
    kept = (mine < entered) & (rank < most)
    row = image * total + ((-key) & 0xFFFFFFFF)
    to = image * most + rank
    tl.store(best_scores_ptr + to, tl.load(scores_ptr + row, kept, 0.0), kept)
    tl.store(best_labels_ptr + to, tl.load(labels_ptr + row, kept, 0).to(tl.int64), kept)
    for corner in tl.static_range(4):
        tl.store(best_boxes_ptr + to * 4 + corner, tl.load(boxes_ptr + row * 4 + corner, kept, 0.0), kept)


@triton.jit
def rows_kernel(
    boxes_ptr, scores_ptr, labels_ptr, kept_ptr, counts_ptr, sizes_ptr, scales_ptr, rows_ptr, places, most,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """What is kept of an image, in pixels of its picture; zeros behind it."""
    image = tl.program_id(0).to(tl.int64)
    number = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    used = number < tl.load(counts_ptr + image)
    place = image * places + tl.load(kept_ptr + image * most + number, used, 0)
    row = rows_ptr + (image * most + number) * 6
    inside = number < most
    for corner in tl.static_range(4):
        pad = tl.load(sizes_ptr + image * 6 + 4 + corner % 2)
        at = (tl.load(boxes_ptr + place * 4 + corner, used, 0.0) - pad) * tl.load(scales_ptr + image * 2 + corner % 2)
        end = tl.load(sizes_ptr + image * 6 + corner % 2).to(tl.float32)
        tl.store(row + corner, tl.where(used, tl.minimum(tl.maximum(at, 0.0), end), 0.0), inside)
    tl.store(row + 4, tl.load(scores_ptr + place, used, 0.0), inside)
    tl.store(row + 5, tl.load(labels_ptr + place, used, 0).to(tl.float32), inside)
