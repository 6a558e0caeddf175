"""The kernels of `greedy`, in a file of its own because importing it needs Triton."""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


# Their values differ from batch to batch, and none is worth a kernel of its own.
@triton.jit(do_not_specialize=["columns", "most"])
def greedy_kernel(
    boxes_ptr, labels_ptr, counts_ptr, kept_ptr, kept_count_ptr, columns, most, threshold,
    AGNOSTIC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(0).to(tl.int64)
    boxes_ptr += image * columns * 4
    labels_ptr += image * columns
    kept_ptr += image * most
    place = tl.arange(0, BLOCK)
    total = tl.load(counts_ptr + image).to(tl.int32)
    count = tl.full((), 0, tl.int32)
    first = tl.full((), 0, tl.int32)
    while (first < total) & (count < most):
        exists = first + place < total
        x1, y1, x2, y2, label = _load(boxes_ptr, labels_ptr, first + place, exists)

        # Overlapped by a box kept from an earlier block?
        suppressed = tl.zeros((BLOCK,), dtype=tl.int32)
        start = tl.full((), 0, tl.int32)
        while start < count:
            used = start + place < count
            number = tl.load(kept_ptr + start + place, mask=used, other=0)
            kx1, ky1, kx2, ky2, kept_label = _load(boxes_ptr, labels_ptr, number, used)
            hit = _overlap(kx1, ky1, kx2, ky2, x1, y1, x2, y2) > threshold
            hit = hit & used[:, None]
            if not AGNOSTIC:
                hit = hit & (kept_label[:, None] == label[None, :])
            suppressed = tl.maximum(suppressed, tl.max(hit.to(tl.int32), axis=0))
            start += BLOCK

        better = _overlap(x1, y1, x2, y2, x1, y1, x2, y2) > threshold
        better = better & (place[:, None] < place[None, :])
        if not AGNOSTIC:
            better = better & (label[:, None] == label[None, :])
        better = better.to(tl.int32)
        keep = _settled(exists.to(tl.int32) * (1 - suppressed), better)
        slot = count + tl.cumsum(keep, axis=0) - 1
        tl.store(kept_ptr + slot, (first + place).to(tl.int64), mask=(keep > 0) & (slot < most))
        count = tl.minimum(count + tl.sum(keep, axis=0), most)
        first += BLOCK
        tl.debug_barrier()  # other threads of this program read what was kept
    tl.store(kept_count_ptr + image, count.to(tl.int64))


@triton.jit(do_not_specialize=["columns", "words"])
def overlap_kernel(
    boxes_ptr, labels_ptr, counts_ptr, bits_ptr, columns, words, threshold, AGNOSTIC: tl.constexpr, BLOCK: tl.constexpr
):
    """Of 64 candidates and 64 that are not better: which of the latter each suppresses, a bit for each."""
    better_block, word, image = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    total = tl.load(counts_ptr + image).to(tl.int32)
    if (better_block <= word) & (word * BLOCK < total):
        place = tl.arange(0, BLOCK)
        better, worse = better_block * BLOCK + place, word * BLOCK + place
        boxes_ptr += image * columns * 4
        labels_ptr += image * columns
        x1, y1, x2, y2, label = _load(boxes_ptr, labels_ptr, better, better < total)
        ox1, oy1, ox2, oy2, other_label = _load(boxes_ptr, labels_ptr, worse, worse < total)
        hit = _overlap(x1, y1, x2, y2, ox1, oy1, ox2, oy2) > threshold
        hit = hit & (better[:, None] < worse[None, :]) & (worse < total)[None, :]
        if not AGNOSTIC:
            hit = hit & (label[:, None] == other_label[None, :])
        bits = tl.sum(hit.to(tl.int64) << place.to(tl.int64)[None, :], axis=1)
        tl.store(bits_ptr + (image * columns + better) * words + word, bits, mask=better < total)


@triton.jit(do_not_specialize=["columns", "words", "most"])
def settle_kernel(
    bits_ptr, counts_ptr, kept_ptr, kept_count_ptr, columns, words, most, BLOCK: tl.constexpr, WORDS: tl.constexpr
):
    """Goes over an image's candidates, 64 at a time, and collects what the kept ones suppress."""
    image = tl.program_id(0).to(tl.int64)
    bits_ptr += image * columns * words
    kept_ptr += image * most
    place, word = tl.arange(0, BLOCK), tl.arange(0, WORDS)
    total = tl.load(counts_ptr + image).to(tl.int32)
    suppressed = tl.zeros((WORDS,), dtype=tl.int64)
    count = tl.full((), 0, tl.int32)
    block = tl.full((), 0, tl.int32)
    while (block * BLOCK < total) & (count < most):
        own = block * BLOCK + place
        exists = own < total
        gone = tl.sum(tl.where(word == block, suppressed, 0), axis=0) >> place.to(tl.int64)
        free = exists.to(tl.int32) * (1 - (gone & 1).to(tl.int32))
        inside = tl.load(bits_ptr + own * words + block, mask=exists, other=0)
        better = ((inside[:, None] >> place.to(tl.int64)[None, :]) & 1).to(tl.int32)
        keep = _settled(free, better)
        slot = count + tl.cumsum(keep, axis=0) - 1
        tl.store(kept_ptr + slot, own.to(tl.int64), mask=(keep > 0) & (slot < most))
        count = tl.minimum(count + tl.sum(keep, axis=0), most)
        later = ((word > block) & (word * BLOCK < total))[None, :] & (keep > 0)[:, None]
        more = tl.load(bits_ptr + own[:, None] * words + word[None, :], mask=later, other=0)
        suppressed = suppressed | tl.reduce(more, 0, _either)
        block += 1
    tl.store(kept_count_ptr + image, count.to(tl.int64))


@triton.jit
def _either(one, other):
    return one | other


@triton.jit
def _settled(free, better):
    """`keep = no kept, better one overlaps` has one solution, the greedy one. It is found by repeating it: each round
    settles one more link of every chain of overlaps."""
    keep = free
    changed = 1
    while changed > 0:
        after = free * (1 - tl.max(better * keep[:, None], axis=0))
        changed = tl.max((after != keep).to(tl.int32), axis=0)
        keep = after
    return keep


@triton.jit
def _load(boxes_ptr, labels_ptr, number, exists):
    corner = boxes_ptr + number * 4
    return (
        tl.load(corner, mask=exists, other=0.0),
        tl.load(corner + 1, mask=exists, other=0.0),
        tl.load(corner + 2, mask=exists, other=0.0),
        tl.load(corner + 3, mask=exists, other=0.0),
        tl.load(labels_ptr + number, mask=exists, other=-1),
    )


@triton.jit
def _overlap(ax1, ay1, ax2, ay2, bx1, by1, bx2, by2):
    """`boxes.iou` of every pair, in its order of operations."""
    width = _not_below_zero(tl.minimum(ax2[:, None], bx2[None, :]) - tl.maximum(ax1[:, None], bx1[None, :]))
    height = _not_below_zero(tl.minimum(ay2[:, None], by2[None, :]) - tl.maximum(ay1[:, None], by1[None, :]))
    intersection = width * height
    area_a = _not_below_zero(ax2 - ax1) * _not_below_zero(ay2 - ay1)
    area_b = _not_below_zero(bx2 - bx1) * _not_below_zero(by2 - by1)
    union = area_a[:, None] + area_b[None, :] - intersection
    return tl.div_rn(intersection, tl.maximum(union, 1e-30, propagate_nan=tl.PropagateNan.ALL))


@triton.jit
def _not_below_zero(side):
    """Sides of boxes too large for a float are NaN, and stay so as in torch."""
    return tl.maximum(side, 0.0, propagate_nan=tl.PropagateNan.ALL)
