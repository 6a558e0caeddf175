"""Greedy non-maximum suppression of a whole batch, exactly, without a loop over boxes.

Candidates are taken in blocks of falling score. A block is first compared with what its image has kept, then with
itself: there `keep = no kept, better one overlaps` is repeated until nothing changes. That has one solution, the greedy
one, and each round settles one more link of every chain of overlaps, so a few rounds do.

An image is finished when it has kept as many as it may, however many candidates are left: of tens of thousands usually
only the best thousand are ever compared. Memory is bounded by images × block × (block + kept).

Boxes of different classes never suppress one another. Labels are compared, instead of moving each class to a place of
its own as is often done: 4096 pixels per class, 79 classes away, neighbouring floats are 1/32 pixel apart.

On a GPU plain torch asks the host after every block who is finished; there one Triton kernel does the same, a program
per image. It computes overlaps operation by operation as `suppress_torch` does: divided exactly, and no product fused
with a sum. So a box on the edge of the threshold has the same fate. Of few images that would leave most of the GPU
idle: there all overlaps are computed at once, also those that do not matter, and one program only reads them.

Axes: B images of the batch, O those of them not finished, K candidates of a block, S places for what is kept.
"""

import torch
from torch import Tensor

from yolofast.boxes import iou, pairwise
from yolofast.evaluate.candidates import Candidates
from yolofast.precision import NEW_KERNELS

try:
    from yolofast.evaluate._greedy_kernel import greedy_kernel, overlap_kernel, settle_kernel
except ImportError:  # Triton is not there on every platform
    greedy_kernel = overlap_kernel = settle_kernel = None

# Of the kernel: 16 overlaps per thread, as many as fit into registers.
_KERNEL_BLOCK, _KERNEL_WARPS = 64, 8
_FEW_IMAGES, _FEW_CANDIDATES = 8, 4096
"""Whose overlaps are computed all at once: a bit for each, 2 MB of an image at most."""

# On a GPU large blocks mean few launches and waits; on a CPU small ones mean few comparisons.
_BLOCKS = {"cuda": (512, 256, 128, 64), "cpu": (64,)}
_MOST_PAIRS = 2**24
"""Of a block with itself, over all images; each takes some 30 bytes while overlaps are computed."""
# Asking the device whether anything changed costs more than some rounds too many.
_ROUNDS_PER_QUESTION = {"cuda": 4, "cpu": 1}


def greedy_suppression(candidates: Candidates, threshold: float, *, agnostic: bool, most: int) -> tuple[Tensor, Tensor]:
    """The candidates each image keeps, best first, `[B, most]`, and how many of these places are used, `[B]`.

    A box is kept unless it overlaps a kept one of its class (`agnostic`: of any class) and a better score, or an equal
    score and an earlier place, by more than the threshold.
    """
    if greedy_kernel is None or not candidates.boxes.is_cuda:
        return suppress_torch(candidates, threshold, agnostic=agnostic, most=most)
    batch, columns = candidates.labels.shape
    few = batch <= _FEW_IMAGES and columns <= _FEW_CANDIDATES
    suppress = suppress_bits if NEW_KERNELS and few else suppress_triton
    return suppress(candidates, threshold, agnostic=agnostic, most=most)


def suppress_triton(candidates: Candidates, threshold: float, *, agnostic: bool, most: int) -> tuple[Tensor, Tensor]:
    boxes, labels = candidates.boxes.contiguous(), candidates.labels.contiguous()
    batch, columns = labels.shape
    kept_BS = torch.zeros((batch, most), dtype=torch.long, device=boxes.device)
    count_B = torch.zeros_like(candidates.counts)
    with torch.cuda.device_of(boxes):  # type: ignore[no-untyped-call]
        greedy_kernel[(batch,)](
            boxes, labels, candidates.counts, kept_BS, count_B, columns, most, threshold,
            AGNOSTIC=agnostic, BLOCK=_KERNEL_BLOCK, num_warps=_KERNEL_WARPS, enable_fp_fusion=False,
        )  # fmt: skip
    return kept_BS, count_B


def suppress_bits(candidates: Candidates, threshold: float, *, agnostic: bool, most: int) -> tuple[Tensor, Tensor]:
    boxes, labels = candidates.boxes.contiguous(), candidates.labels.contiguous()
    batch, columns = labels.shape
    words = -(-columns // _KERNEL_BLOCK)
    bits = torch.empty((batch, columns, words), dtype=torch.long, device=boxes.device)
    kept_BS = torch.zeros((batch, most), dtype=torch.long, device=boxes.device)
    count_B = torch.zeros_like(candidates.counts)
    with torch.cuda.device_of(boxes):  # type: ignore[no-untyped-call]
        overlap_kernel[(words, words, batch)](
            boxes, labels, candidates.counts, bits, columns, words, threshold,
            AGNOSTIC=agnostic, BLOCK=_KERNEL_BLOCK, num_warps=_KERNEL_WARPS, enable_fp_fusion=False,
        )  # fmt: skip
        settle_kernel[(batch,)](
            bits, candidates.counts, kept_BS, count_B, columns, words, most,
            BLOCK=_KERNEL_BLOCK, WORDS=max(16, 1 << (words - 1).bit_length()), num_warps=_KERNEL_WARPS,
        )  # fmt: skip
    return kept_BS, count_B


def suppress_torch(candidates: Candidates, threshold: float, *, agnostic: bool, most: int) -> tuple[Tensor, Tensor]:
    device = candidates.boxes.device
    size = _block_size(device, len(candidates.counts))
    groups = torch.zeros_like(candidates.labels) if agnostic else candidates.labels
    # One place more than may be kept takes everything that is not.
    kept_BS = torch.zeros((len(candidates.counts), most + 1), dtype=torch.long, device=device)
    count_B = torch.zeros_like(candidates.counts)
    first = 0
    while len(open_O := ((candidates.counts > first) & (count_B < most)).nonzero()[:, 0]):
        block_OK, exists_OK = _block(candidates.counts[open_O], first, size)
        block = candidates.boxes[open_O[:, None], block_OK], groups[open_O[:, None], block_OK]
        kept_OS = kept_BS[open_O, : int(count_B.max())]
        kept = candidates.boxes[open_O[:, None], kept_OS], groups[open_O[:, None], kept_OS]
        used_OS = torch.arange(kept_OS.shape[1], device=device) < count_B[open_O, None]
        suppressed_OK = (_overlaps(kept, block, threshold) & used_OS[..., None]).any(1)
        suppresses_OKK = _overlaps(block, block, threshold).triu(1)
        keep_OK = _settle(suppresses_OKK, exists_OK & ~suppressed_OK)
        slot_OK = torch.where(keep_OK, count_B[open_O, None] + keep_OK.cumsum(1) - 1, most).clamp(max=most)
        kept_BS[open_O[:, None], slot_OK] = block_OK
        count_B[open_O] = (count_B[open_O] + keep_OK.sum(1)).clamp(max=most)
        first += size
    return kept_BS[:, :most], count_B


def _block_size(device: torch.device, batch: int) -> int:
    sizes = _BLOCKS.get(device.type, _BLOCKS["cuda"])
    return next((size for size in sizes if batch * size**2 <= _MOST_PAIRS), sizes[-1])


def _block(counts_O: Tensor, first: int, size: int) -> tuple[Tensor, Tensor]:
    """The places of the next candidates of each open image, `[O, K]`, and which of them exist; others are stand-ins."""
    place_K = torch.arange(first, first + size, device=counts_O.device)
    exists_OK = place_K < counts_O[:, None]
    return torch.where(exists_OK, place_K, 0), exists_OK


def _overlaps(better: tuple[Tensor, Tensor], worse: tuple[Tensor, Tensor], threshold: float) -> Tensor:
    """`[O, S, K]`: this box of the first, if kept, suppresses that one of the second. Both: boxes and their groups."""
    (better_OS4, group_OS), (worse_OK4, group_OK) = better, worse
    return (group_OS[:, :, None] == group_OK[:, None, :]) & (pairwise(iou, better_OS4, worse_OK4) > threshold)


def _settle(suppresses_OKK: Tensor, candidate_OK: Tensor) -> Tensor:
    """Which of the candidates are kept, `[O, K]`, if an earlier, kept one suppresses a later one."""
    weights_OKK = suppresses_OKK.float()  # a product of matrices asks all of them at once
    keep_OK = candidate_OK
    while True:
        for _ in range(_ROUNDS_PER_QUESTION.get(keep_OK.device.type, 1)):
            before_OK = keep_OK
            hits_OK = torch.bmm(keep_OK[:, None, :].float(), weights_OKK)[:, 0]
            keep_OK = candidate_OK & (hits_OK == 0)
        if torch.equal(keep_OK, before_OK):
            return keep_OK
