"""Packed images moved from the mapped file into memory of their own: on the GPU, or in this process's RAM."""

import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.pixels import PackedImages
from yolofast.store.device import usable_device

WORD = 8
CHUNK = 64 * 2**20
"""Bytes copied at a time: large enough for full speed, small against what is copied."""


def to_device(packed: PackedImages, device: torch.device | str, chunk: int = CHUNK) -> PackedImages:
    """The images in the memory of `device`.

    They pass through two small pinned buffers in turn, one filled from the file while the other is on its way, so that
    host memory never holds a second copy.
    """
    device = usable_device(device)
    target = torch.empty(packed.data.shape, dtype=torch.uint8, device=device)
    on_gpu = device.type == "cuda"
    buffers = [torch.empty(min(chunk, len(target)), dtype=torch.uint8, pin_memory=on_gpu) for _ in range(2)]
    sent: list[torch.cuda.Event | None] = [None, None]
    for turn, start in enumerate(range(0, len(target), chunk)):
        piece = packed.data[start : start + chunk]
        buffer, event = buffers[turn % 2][: len(piece)], sent[turn % 2]
        if event is not None:
            event.synchronize()
        buffer.copy_(piece)
        target[start : start + chunk].copy_(buffer, non_blocking=on_gpu)
        if on_gpu:
            sent[turn % 2] = torch.cuda.current_stream(device).record_event()
    if on_gpu:
        torch.cuda.current_stream(device).synchronize()
    return replace(packed, data=target)


def in_host_memory(packed: PackedImages, pinned: bool) -> PackedImages:
    """A copy in this process's RAM; `pinned`, where there is a GPU, so that it can copy from there by itself.

    It ends with a whole word, so that the GPU may read words.
    """
    memory = np.zeros(-(-len(packed.data) // WORD) * WORD, np.uint8)
    target = torch.from_numpy(memory)
    target[: len(packed.data)].copy_(packed.data)
    if pinned and len(memory) and torch.cuda.is_available():
        _pin(target, memory)
    return replace(packed, data=target)


def _pin(target: Tensor, memory: npt.NDArray[np.uint8]) -> None:
    """Pins memory that is already there. Torch's own pinned memory comes in powers of two: up to twice as much."""
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    torch.cuda.check_error(runtime.cudaHostRegister(target.data_ptr(), len(memory), 0))
    weakref.finalize(memory, runtime.cudaHostUnregister, target.data_ptr())
