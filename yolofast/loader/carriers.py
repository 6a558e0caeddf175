"""How a batch gets from the worker that makes it to the training process: in memory of its own, in a ring, or sent.

`FreshBlocks` puts every batch into new shared memory, as PyTorch's loader does: valid as long as it is held, at the
price of new pages per batch. `Ring` (`--worker-tensor`) is one pinned block whose slots are used in turn. Nothing is
pickled, copied or allocated per batch, but a batch is valid only until the next but one is requested. Workers that are
not forked share no memory: theirs are `Copies`.

The memory has no name in the file system (`memfd_create`), so nothing is left behind however processes end, and a
container's small /dev/shm does not matter. Pythons built for older systems lack it: there it is a file in /dev/shm,
unlinked at once, and the room in it is checked.
"""

import mmap
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.errors import UserError
from yolofast.loader.batch_maker import BatchMaker, Job, Shape
from yolofast.store.choose import ram_free
from yolofast.store.images import pin
from yolofast.structures import BatchMix, Targets
from yolofast.words import amount

Pixels = npt.NDArray[np.uint8]
Reply = tuple[Any, BatchMix, tuple[str, ...]]
"""What belongs to the batch apart from its pixels, its mix, and which images were skipped."""


_SHM = Path("/dev/shm")
# Padding slots for boxes per image. Fuller batches send theirs by pickle; reserving for the worst case costs too much.
_CAPACITY = 512
_BYTES_PER_BOX = 4 * 4 + 8 + 1  # corners, label, valid
_ALIGNMENT = 4096
_FIX_PINNING = "use fewer --workers or a smaller --batch-size, or omit --worker-tensor"


class Carrier(Protocol):
    """Made before the workers are started, so that both sides have it."""

    def make(self, maker: BatchMaker, job: Job, turn: int) -> tuple[Reply, int | None]:
        """In a worker: make the batch in its place; the reply, and the file that goes with it."""

    def take(self, shape: Shape, turn: int, boxes: Any, file: int | None) -> tuple[Tensor, Targets]:
        """In the training process: the batch that is there."""

    def close(self) -> None: ...


class SharedBlock:
    """`memory` is shared with processes forked from now on, and with those that get `file`."""

    def __init__(self, nbytes: int) -> None:
        self.file = _nameless_file()
        try:
            _take_room(self.file, nbytes)
            self.memory = mmap.mmap(self.file, nbytes)
        except OSError as error:
            os.close(self.file)
            what = f"{amount(nbytes)} of shared memory cannot be had: {error.strerror}"
            raise UserError(what, fix=_remedy()) from None

    def close_file(self) -> None:
        """The memory stays as long as anything refers to it."""
        os.close(self.file)


def _take_room(file: int, nbytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, nbytes)  # fails here and now, not by a signal when it is written to
    else:
        os.ftruncate(file, nbytes)


def check_room(nbytes: int, purpose: str) -> None:
    """Refuse before work starts what shared memory cannot hold."""
    free = ram_free() if _has_memfd() else min(ram_free(), shutil.disk_usage(_shm_folder()).free)
    if nbytes > free:
        place = "memory" if _has_memfd() else str(_shm_folder())
        what = f"{purpose} need {amount(nbytes)} of shared memory, but {amount(free)} of {place} is free"
        raise UserError(what, fix=_remedy())


def _remedy() -> str:
    fewer = "use fewer --workers or a smaller --batch-size"
    return fewer if _has_memfd() else f"{fewer}, or start the container with a larger --shm-size"


def _nameless_file() -> int:
    if _has_memfd():
        return os.memfd_create("yolofast")
    with tempfile.TemporaryFile(dir=_shm_folder()) as file:
        return os.dup(file.fileno())


def _has_memfd() -> bool:
    return hasattr(os, "memfd_create")


def _shm_folder() -> Path:
    return _SHM if _SHM.is_dir() else Path(tempfile.gettempdir())


class Ring:
    def __init__(self, slots: int, batch_size: int, image_bytes: int, *, pinned: bool) -> None:
        """Slots for batches of up to `batch_size` images that take `image_bytes` together."""
        self._slots = slots
        self._image_bytes = _aligned(image_bytes)
        self._slot_bytes = slot_bytes(batch_size, image_bytes)
        block = SharedBlock(slots * self._slot_bytes)
        block.close_file()  # forked processes inherit the mapping itself
        self._bytes = np.frombuffer(block.memory, np.uint8)
        self._unpin = weakref.finalize(self, pin(self._bytes, fix=_FIX_PINNING)) if pinned else None

    def make(self, maker: BatchMaker, job: Job, turn: int) -> tuple[Reply, int | None]:
        slot = self._slot(turn)
        shape = maker.shape(job)
        assert np.prod(shape) <= self._image_bytes, "the batch is larger than those the ring was made for"
        made = maker.make(job, slot[: int(np.prod(shape))].reshape(shape))
        given = made.targets
        images, capacity = given.labels.shape
        if capacity > _CAPACITY:
            return (_arrays(given), made.mix, made.skipped), None
        stored = self._targets(slot, images, capacity)
        for place, value in ((stored.boxes, given.boxes), (stored.labels, given.labels), (stored.valid, given.valid)):
            place.copy_(value)
        return (capacity, made.mix, made.skipped), None

    def take(self, shape: Shape, turn: int, boxes: Any, file: int | None) -> tuple[Tensor, Targets]:
        slot = self._slot(turn)
        images = torch.from_numpy(slot[: int(np.prod(shape))].reshape(shape))
        if isinstance(boxes, int):
            return images, self._targets(slot, shape[0], boxes)
        return images, Targets(*map(torch.from_numpy, boxes))

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


def _arrays(targets: Targets) -> tuple[npt.NDArray[Any], ...]:
    return targets.boxes.numpy(), targets.labels.numpy(), targets.valid.numpy()


def slot_bytes(batch_size: int, image_bytes: int) -> int:
    return _aligned(image_bytes) + _aligned(batch_size * _CAPACITY * _BYTES_PER_BOX)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


class FreshBlocks:
    def make(self, maker: BatchMaker, job: Job, turn: int) -> tuple[Reply, int | None]:
        shape = maker.shape(job)
        block = SharedBlock(int(np.prod(shape)))
        try:
            made = maker.make(job, np.frombuffer(block.memory, np.uint8).reshape(shape))
        except BaseException:
            block.close_file()
            raise
        return (_arrays(made.targets), made.mix, made.skipped), block.file

    def take(self, shape: Shape, turn: int, boxes: Any, file: int | None) -> tuple[Tensor, Targets]:
        assert file is not None
        memory = mmap.mmap(file, int(np.prod(shape)))
        os.close(file)
        images = torch.frombuffer(memory, dtype=torch.uint8).reshape(shape)
        return images, Targets(*map(torch.from_numpy, boxes))

    def close(self) -> None:
        """Nothing is held."""


class SentCopies:
    """Sent through the connection, for workers that are not forked."""

    def make(self, maker: BatchMaker, job: Job, turn: int) -> tuple[Reply, int | None]:
        pixels = np.empty(maker.shape(job), np.uint8)
        made = maker.make(job, pixels)
        return ((pixels, *_arrays(made.targets)), made.mix, made.skipped), None

    def take(self, shape: Shape, turn: int, boxes: Any, file: int | None) -> tuple[Tensor, Targets]:
        pixels, *arrays = boxes
        return torch.from_numpy(pixels), Targets(*map(torch.from_numpy, arrays))

    def close(self) -> None:
        """Nothing is held."""
