"""The same function over many files, in threads: opening, hashing and decoding let go of the interpreter's lock."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# A task per file would cost more than many of the files do; blocks this small still share the work evenly.
_FILES_PER_TASK = 32
# More threads than cores: on network drives the files take their time, not the processor.
_THREADS = min(32, 2 * (os.cpu_count() or 1) + 2)


def in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], done: Callable[[int], None] | None = None
) -> list[Result]:
    """[function(item) for item in items], in order; `done` hears how many more are finished."""
    blocks = [items[i : i + _FILES_PER_TASK] for i in range(0, len(items), _FILES_PER_TASK)]

    def run(block: Sequence[Item]) -> list[Result]:
        results = [function(item) for item in block]
        if done is not None:
            done(len(results))
        return results

    if len(blocks) < 2:
        return list(chain.from_iterable(map(run, blocks)))
    pool = ThreadPoolExecutor(_THREADS)
    try:
        return list(chain.from_iterable(pool.map(run, blocks)))
    finally:
        pool.shutdown(cancel_futures=True)  # after an interrupt nobody waits for the files not yet begun
