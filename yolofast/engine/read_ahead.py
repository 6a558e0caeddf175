"""Items made by a thread while the caller works on those before."""

import queue
import threading
from collections.abc import Generator
from typing import TypeVar

Item = TypeVar("Item")

_PATIENCE = 2.0
"""Seconds to wait for the thread at the end: a dead stream may hold it longer, and must not hold us."""


class _End:
    """The last thing the thread says: that there is nothing more, or what went wrong."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def read_ahead(items: Generator[Item], ahead: int) -> Generator[Item]:
    """The same items in the same order, up to `ahead` of them made before they are asked for."""
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

    thread = threading.Thread(target=work, name="yolofast-read-ahead", daemon=True)
    thread.start()
    try:
        while not isinstance(item := ready.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        thread.join(_PATIENCE)
