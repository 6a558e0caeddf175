"""Cameras and network streams: each is read by a thread of its own, and only its newest picture is looked at.

Whoever looks more slowly than pictures come would otherwise fall behind further and further.

Items made by a thread while the caller works on those before.
"""

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import cv2
import numpy as np

from yolofast.errors import UserError
from yolofast.media.addresses import without_password
from yolofast.media.frames import Frame, Video, frames_per_second, open_capture

OnFault = Callable[[UserError], None]

_PULSE = 0.5
"""Seconds after which a batch is given even if nothing is new: so that whoever waits for it may also leave."""


class StreamEndedError(UserError):
    """Worth a message where several streams are watched; the end of the only one is nothing wrong."""


class LiveStreams:
    """Several streams at once. Numbers are cameras, anything else an address."""

    def __init__(self, names: Sequence[str], on_fault: OnFault, every: int = 1) -> None:
        self._names, self._on_fault, self._every = list(names), on_fault, every
        self._news = threading.Condition()
        self._fresh: dict[str, Frame] = {}
        self._errors: list[Exception] = []
        self._running = 0
        self._stop = threading.Event()

    def batches(self) -> Generator[list[Frame]]:
        """The newest picture of every stream that has one, until all have ended; now and then none."""
        self._running = len(self._names)
        threads = [threading.Thread(target=self._follow, args=(name,), daemon=True) for name in self._names]
        for thread in threads:
            thread.start()
        try:
            while True:
                with self._news:
                    self._news.wait_for(lambda: self._fresh or self._errors or not self._running, _PULSE)
                    fresh, self._fresh = list(self._fresh.values()), {}
                    errors, self._errors = self._errors, []
                    ended = not self._running
                for error in errors:
                    if not isinstance(error, UserError):
                        raise error
                    self._on_fault(error)
                if ended and not fresh:
                    return
                yield fresh
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(_PULSE)

    def _follow(self, name: str) -> None:
        error: Exception
        try:
            read = self._read(name)
            error = StreamEndedError(f"the stream has ended after {read} pictures", where=without_password(name))
        except Exception as raised:  # noqa: BLE001 - raised again where the pictures are used
            error = raised
        with self._news:
            self._running -= 1
            self._errors.append(error)
            self._news.notify()

    def _read(self, name: str) -> int:
        capture = open_capture(int(name) if name.isdecimal() else name)
        shown = without_password(name)
        film, read = Video(shown, frames_per_second(capture) / self._every, None, live=True), 0
        try:
            while not self._stop.is_set() and capture.grab():
                read += 1
                if (read - 1) % self._every:
                    continue
                got, image = capture.retrieve()
                if not got:
                    break
                self._offer(name, Frame(np.asarray(image, np.uint8), shown, (read - 1) // self._every, film))
        except cv2.error as error:  # some backends raise instead of ending
            raise UserError(f"the stream has failed: {error.err}", where=shown) from error
        finally:
            capture.release()
        return read

    def _offer(self, name: str, frame: Frame) -> None:
        with self._news:
            self._fresh[name] = frame
            self._news.notify()


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
