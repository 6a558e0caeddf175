"""Greedy non-maximum suppression of a whole batch, exactly, without a loop over boxes.

Candidates are taken in blocks of falling score. A block is first compared with what its image has kept, then with
itself: there `keep = no kept, better one overlaps` is repeated until nothing changes. That has one solution, the greedy
one, and each round settles one more link of every chain of overlaps, so a few rounds do.

An image is finished when it has kept as many as it may, however many candidates are left: of tens of thousands usually
only the best thousand are ever compared. Memory is bounded by images × block × (block + kept).

Boxes of different classes never suppress one another. Labels are compared, instead of moving each class to a place of
its own as is often done: 4096 pixels per class, 79 classes away, neighbouring floats are 1/32 pixel apart.

Axes: B images of the batch, O those of them not finished, K candidates of a block, S places for what is kept.
"""

import torch
from torch import Tensor

from yolofast.boxes import iou, pairwise
from yolofast.evaluate.candidates import Candidates

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
    device = candidates.boxes.device
    size = _block_size(device, len(candidates.counts))
    groups = torch.zeros_like(candidates.labels) if agnostic else candidates.labels
    # One place more than may be kept takes everything that is not.
    kept_BS = torch.zeros((len(candidates.counts), most + 1), dtype=torch.long, device=device)
    count_B = torch.zeros_like(candidates.counts)
    first = 0
    while len(open_O := ((candidates.counts > first) & (count_B < most)).nonzero()[:, 0]):
        block_OK, exists_OK = _block(candidates, open_O, first, size)
        kept_OS = kept_BS[open_O, : int(count_B.max())]
        suppressed_OK = _suppressed(candidates.boxes, groups, kept_OS, count_B[open_O], block_OK, threshold)
        suppresses_OKK = _overlaps(candidates.boxes, groups, block_OK, block_OK, threshold).triu(1)
        keep_OK = _settle(suppresses_OKK, exists_OK & ~suppressed_OK)
        slot_OK = torch.where(keep_OK, count_B[open_O, None] + keep_OK.cumsum(1) - 1, most).clamp(max=most)
        kept_BS[open_O[:, None], slot_OK] = block_OK
        count_B[open_O] = (count_B[open_O] + keep_OK.sum(1)).clamp(max=most)
        first += size
    return kept_BS[:, :most], count_B


def _block_size(device: torch.device, batch: int) -> int:
    sizes = _BLOCKS.get(device.type, _BLOCKS["cuda"])
    return next((size for size in sizes if batch * size**2 <= _MOST_PAIRS), sizes[-1])


def _block(candidates: Candidates, open_O: Tensor, first: int, size: int) -> tuple[Tensor, Tensor]:
    """The next candidates of each open image, `[O, K]`, and which of them exist; any other is a stand-in."""
    place_K = torch.arange(first, first + size, device=open_O.device)
    exists_OK = place_K < candidates.counts[open_O, None]
    return torch.where(exists_OK, place_K + candidates.starts[open_O, None], 0), exists_OK


def _suppressed(
    boxes: Tensor, groups: Tensor, kept_OS: Tensor, count_O: Tensor, block_OK: Tensor, threshold: float
) -> Tensor:
    """`[O, K]`: overlaps one of the image's kept boxes, which are the first `count_O` places."""
    used_OS = torch.arange(kept_OS.shape[1], device=kept_OS.device) < count_O[:, None]
    return (_overlaps(boxes, groups, kept_OS, block_OK, threshold) & used_OS[..., None]).any(1)


def _overlaps(boxes: Tensor, groups: Tensor, better_OS: Tensor, worse_OK: Tensor, threshold: float) -> Tensor:
    """`[O, S, K]`: this box of the first, if kept, suppresses that one of the second."""
    same_OSK = groups[better_OS][:, :, None] == groups[worse_OK][:, None, :]
    return same_OSK & (pairwise(iou, boxes[better_OS], boxes[worse_OK]) > threshold)


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
