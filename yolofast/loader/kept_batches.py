"""Batches to evaluate on that are kept when they are made again: training goes through the same ones after every epoch.

The first time nothing is kept, so whoever looks at a split once pays nothing. From the second time on a batch stays
where there is room: on the device, up to 3 % of the memory that is free there when the first batch is kept; then on the
host (pinned, where there is a GPU), up to 10 % of what is free there, divided among the processes of a machine. What
finds no room is made every time. The share of the device is small, because activations are what its memory is for; that
of the host, because the page cache holds the same pixels already.
"""

import os
from dataclasses import replace

import torch

from yolofast.store.room import ram_free
from yolofast.structures import Batch

DEVICE_SHARE = 0.03
HOST_SHARE = 0.1

Key = tuple[bytes, int, int]
"""Which images, height and width."""


class KeptBatches:
    """`device` is where batches are used; None is the host."""

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device if device is not None and device.type == "cuda" else None
        self._seen: set[Key] = set()
        self._kept: dict[Key, Batch] = {}
        self._device_room: float | None = None
        self._host_room: float | None = None

    def get(self, key: Key) -> Batch | None:
        return self._kept.get(key)

    def offer(self, key: Key, batch: Batch) -> Batch:
        """A batch that has been made. Use the one that is returned: it may be on the device already.

        It is copied there by the current stream, which is the one that is going to read it.
        """
        if key not in self._seen:
            self._seen.add(key)
            return batch
        if self._device is not None and self._fits_device(batch.images.nbytes):
            batch = self._kept[key] = replace(
                batch,
                images=batch.images.to(self._device, non_blocking=True),
                targets=batch.targets.to(self._device, non_blocking=True),
            )
        elif self._fits_host(_taken_on_host(batch)):
            self._kept[key] = batch
        return batch

    def _fits_device(self, size: int) -> bool:
        if self._device_room is None:
            self._device_room = torch.cuda.mem_get_info(self._device)[0] * DEVICE_SHARE
        fits = size <= self._device_room
        self._device_room -= size if fits else 0
        return fits

    def _fits_host(self, size: int) -> bool:
        if self._host_room is None:
            self._host_room = ram_free() * HOST_SHARE / max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))
        fits = size <= self._host_room
        self._host_room -= size if fits else 0
        return fits


def _taken_on_host(batch: Batch) -> int:
    """torch rounds pinned memory up to powers of two."""
    size = batch.images.nbytes
    return 1 << (size - 1).bit_length() if batch.images.is_pinned() else size
