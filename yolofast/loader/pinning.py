"""Host memory the GPU's copy engine can read by itself."""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from yolofast.errors import UserError
from yolofast.structures import Batch, Targets


def pin(memory: npt.NDArray[np.uint8]) -> Callable[[], None]:
    """Pin memory that is there already; what is returned unpins it."""
    address = memory.ctypes.data
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    code = int(runtime.cudaHostRegister(address, memory.nbytes, 0))
    if code != 0:
        what = f"{memory.nbytes:,} bytes of shared memory cannot be pinned (CUDA error {code})"
        raise UserError(what, fix="use fewer --workers or a smaller --batch-size, or omit --worker-tensor")

    def unpin() -> None:
        runtime.cudaHostUnregister(address)

    return unpin


def pinned_copy(batch: Batch) -> Batch:
    """The batch in pinned memory of its own."""
    targets = batch.targets
    pinned = Targets(targets.boxes.pin_memory(), targets.labels.pin_memory(), targets.valid.pin_memory())
    return replace(batch, images=batch.images.pin_memory(), targets=pinned)


def in_background(batches: Generator[Batch], prepare: Callable[[Batch], Batch]) -> Generator[Batch]:
    """The batches prepared by a thread, one ahead of the caller."""

    def take() -> Batch | None:
        batch = next(batches, None)
        return None if batch is None else prepare(batch)

    thread = ThreadPoolExecutor(1)
    waiting: deque[Future[Batch | None]] = deque()
    try:
        waiting.append(thread.submit(take))
        while (batch := waiting.popleft().result()) is not None:
            waiting.append(thread.submit(take))
            yield batch
    finally:
        thread.shutdown(cancel_futures=True)
        batches.close()
