"""Host memory the GPU's copy engine can read by itself."""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from yolofast.structures import Batch, Targets


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
