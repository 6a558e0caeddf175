"""Work done by threads, with its results in order, and how many cores there are for it.

Opening, hashing, decoding and checksums let go of the interpreter's lock, so other threads run meanwhile.
"""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD_PER_THREAD = 4
"""Enough that one large image does not stall the others; each waiting result holds an image."""
_FILES_PER_TASK = 32
"""A task per file would cost more than many of the files do; blocks this small still share the work evenly."""
_THREADS = min(32, 2 * (os.cpu_count() or 1) + 2)
"""More than cores: on network drives the files take their time, not the processor."""
_PATIENCE = 2.0
"""Seconds to wait for a thread that reads ahead: a dead stream must not block the program."""
_READS_AHEAD = "yolofast-read-ahead"


def usable_cores() -> int:
    """Those this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
        pool.shutdown(cancel_futures=True)  # after an interrupt nobody waits for what has not begun


def in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], done: Callable[[int], None] | None = None
) -> list[Result]:
    """[function(item) for item in items]; `done` is told how many more are finished."""

    def block(first: int) -> list[Result]:
        results = [function(item) for item in items[first : first + _FILES_PER_TASK]]
        if done is not None:
            done(len(results))
        return results

    blocks = range(0, len(items), _FILES_PER_TASK)
    parts = map(block, blocks) if len(blocks) < 2 else in_order(block, blocks, _THREADS)
    return [result for part in parts for result in part]


class _End:
    """The last item of the thread: there is nothing more, or what went wrong."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def read_ahead(items: Generator[Item], ahead: int, patience: float | None = _PATIENCE) -> Generator[Item]:
    """The same items in the same order, up to `ahead` of them made in advance by a thread.

    `patience` is how long to wait for the thread at the end; None waits until it is done.
    """
    ready: queue.Queue[Item | _End] = queue.Queue(ahead)
    stop = threading.Event()

    def offer(item: Item | _End) -> None:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                offer(item)
                if stop.is_set():
                    break
            offer(_End())
        except BaseException as error:  # noqa: BLE001 - raised again where the items are used
            offer(_End(error))
        finally:
            items.close()

    thread = threading.Thread(target=work, name=_READS_AHEAD, daemon=True)
    thread.start()
    try:
        while not isinstance(item := ready.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        thread.join(patience)


def import_meanwhile(*modules: str) -> threading.Thread:
    """For what is needed later, while this thread waits for a device. What fails here fails where it is needed."""

    def work() -> None:
        for module in modules:
            with suppress(Exception):
                import_module(module)

    thread = threading.Thread(target=work, name="yolofast-imports", daemon=False)
    thread.start()
    return thread


def still_reading_ahead() -> bool:
    """Whether a thread was given up that still works, in a network or a dead stream for example."""
    return any(thread.name == _READS_AHEAD for thread in threading.enumerate())
