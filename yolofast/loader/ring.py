"""`--worker-tensor`: one block of shared, pinned memory with a place for each of a few batches, used in turn.

A worker renders straight into its batch's place; the training process makes tensors that look at it. Nothing is
stacked, pickled, copied or allocated per batch. The price is a lifetime: a batch is valid until the next but one is
asked for.
"""

import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

from yolofast.loader.batch_maker import BatchMaker, Job
from yolofast.loader.carrier import Pixels, Reply
from yolofast.loader.pinning import pin
from yolofast.loader.shared_block import SharedBlock
from yolofast.structures import Targets

# Places for boxes per image. Fuller batches send theirs by pickle; reserving for the worst case would cost too much.
_CAPACITY = 512
_BYTES_PER_BOX = 4 * 4 + 8 + 1  # corners, label, valid
_ALIGNMENT = 4096


class Ring:
    def __init__(self, slots: int, batch_size: int, image_bytes: int, *, pinned: bool) -> None:
        """Slots for batches of up to `batch_size` images that take `image_bytes` together."""
        self._slots = slots
        self._image_bytes = _aligned(image_bytes)
        self._slot_bytes = slot_bytes(batch_size, image_bytes)
        block = SharedBlock(slots * self._slot_bytes)
        block.close_file()  # forked processes inherit the mapping itself
        self._bytes = np.frombuffer(block.memory, np.uint8)
        self._unpin = weakref.finalize(self, pin(self._bytes)) if pinned else None

    def make(self, maker: BatchMaker, job: Job, turn: int) -> tuple[Reply, int | None]:
        slot = self._slot(turn)
        shape = maker.shape(job)
        assert np.prod(shape) <= self._image_bytes, "the batch is larger than those the ring was made for"
        made = maker.make(job, slot[: int(np.prod(shape))].reshape(shape))
        given = made.targets
        images, capacity = given.labels.shape
        if capacity > _CAPACITY:
            return ((given.boxes.numpy(), given.labels.numpy(), given.valid.numpy()), made.mix, made.skipped), None
        kept = self._targets(slot, images, capacity)
        for there, value in ((kept.boxes, given.boxes), (kept.labels, given.labels), (kept.valid, given.valid)):
            there.copy_(value)
        return (capacity, made.mix, made.skipped), None

    def take(
        self, shape: tuple[int, int, int, int], turn: int, parcel: Any, file: int | None
    ) -> tuple[Tensor, Targets]:
        slot = self._slot(turn)
        images = torch.from_numpy(slot[: int(np.prod(shape))].reshape(shape))
        if isinstance(parcel, int):
            return images, self._targets(slot, shape[0], parcel)
        return images, Targets(*map(torch.from_numpy, parcel))

    def close(self) -> None:
        """Unpin the memory; it goes away with the last tensor that looks at it."""
        if self._unpin is not None:
            self._unpin()

    def _slot(self, turn: int) -> Pixels:
        start = turn % self._slots * self._slot_bytes
        return self._bytes[start : start + self._slot_bytes]

    def _targets(self, slot: Pixels, images: int, capacity: int) -> Targets:
        """Views of a slot's boxes: labels first, then corners, then marks, so that all are aligned."""
        count = images * capacity
        place = torch.from_numpy(slot[self._image_bytes : self._image_bytes + count * _BYTES_PER_BOX])
        labels = place[: 8 * count].view(torch.int64).view(images, capacity)
        boxes = place[8 * count : 24 * count].view(torch.float32).view(images, capacity, 4)
        return Targets(boxes, labels, place[24 * count :].view(torch.bool).view(images, capacity))


def slot_bytes(batch_size: int, image_bytes: int) -> int:
    return _aligned(image_bytes) + _aligned(batch_size * _CAPACITY * _BYTES_PER_BOX)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
