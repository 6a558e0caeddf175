"""The kernel of `device_pixels`, in a file of its own because importing it needs Triton."""

# ruff: noqa: ANN001, ANN202
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def gather_kernel(source, target, table, BLOCK: tl.constexpr):
    """Copy runs of 8-byte words; `table [n, 3]` holds where each starts in source and target, and its length."""
    run = table + tl.program_id(1) * 3
    word = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = word < tl.load(run + 2)
    words = tl.load(source + tl.load(run) + word, mask=inside)
    tl.store(target + tl.load(run + 1) + word, words, mask=inside)


@triton.jit
def pack_kernel(target, table, BLOCK: tl.constexpr):
    """Planes of red, green and blue to pixels of blue, green and red.

    `table [n, 3]` holds each image's address, where it goes, and how many pixels it has.
    """
    run = table + tl.program_id(1) * 3
    planes = tl.load(run).to(tl.pointer_type(tl.uint8))
    pixels = tl.load(run + 2)
    pixel = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = pixel < pixels
    at = target + tl.load(run + 1) + pixel * 3
    tl.store(at + 2, tl.load(planes + pixel, mask=inside), mask=inside)
    tl.store(at + 1, tl.load(planes + pixels + pixel, mask=inside), mask=inside)
    tl.store(at, tl.load(planes + 2 * pixels + pixel, mask=inside), mask=inside)
