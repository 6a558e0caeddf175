"""Work spread over threads with its results in order; decoding and checksums let other threads run meanwhile."""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

_AHEAD_PER_THREAD = 4
"""Enough that one large image does not stall the others; each waiting result holds an image."""


def in_order(work: Callable[[int], Result], items: range, threads: int) -> Generator[Result]:
    """`work` of every item, in order, a bounded number of them ahead of the caller."""
    pool = ThreadPoolExecutor(max(1, threads))
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > threads * _AHEAD_PER_THREAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
