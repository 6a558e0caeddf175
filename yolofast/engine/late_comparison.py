"""What was found in a batch is compared with the labels later, by a thread, while the device looks at the next ones.

A batch's suppression needs one number from the device before it can be launched. It is asked for when the network of
the batch after it has been launched, so the device has work while the host waits. The result is waited for by the
comparing thread. All work of the device is on one stream, in the order it was launched in, so memory that is let go
here is not reused before it has been read; the thread touches host memory only.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from yolofast.evaluate.nms import BegunSuppression
from yolofast.structures import Batch, Detections

Compare = Callable[[int, Batch, list[Detections]], None]

_MOST_WAITING = 8
"""Batches that may wait to be compared: each holds its images."""


class LateComparison:
    """`compare` is called in another thread, batch by batch; what it raises is raised here."""

    def __init__(self, compare: Compare) -> None:
        self._compare = compare
        self._thread = ThreadPoolExecutor(1, "yolofast-compare")
        self._begun: tuple[int, Batch, BegunSuppression] | None = None
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> "LateComparison":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._thread.shutdown(cancel_futures=kind is not None)

    def add(self, number: int, batch: Batch, begun: BegunSuppression) -> None:
        self._hand_over()
        self._begun = number, batch, begun
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft().result()

    def finish(self) -> None:
        """Returns when everything has been compared."""
        self._hand_over()
        while self._waiting:
            self._waiting.popleft().result()

    def _hand_over(self) -> None:
        if self._begun is None:
            return
        number, batch, begun = self._begun
        late = begun.launch()
        self._waiting.append(self._thread.submit(lambda: self._compare(number, batch, late.get())))
        self._begun = None
