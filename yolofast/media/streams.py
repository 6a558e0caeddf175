"""Live streams, which threads read while the caller works.

Each camera or network stream has a thread of its own, and only its newest frame is used. A detector slower than the
stream would otherwise fall behind further and further.
"""

import threading
from collections.abc import Callable, Generator, Sequence

import cv2

from yolofast.errors import UserError
from yolofast.media.addresses import without_password
from yolofast.media.frames import Frame, FrameReader, open_capture

OnFault = Callable[[UserError], None]

_PULSE = 0.5
"""Seconds after which an empty batch is given if nothing is new, so that the caller may stop."""


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
        """The newest frame of every stream that has one, until all have ended; now and then none."""
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
            error = StreamEndedError(f"the stream has ended after {read} frames", where=without_password(name))
        except Exception as raised:  # noqa: BLE001 - raised again where the frames are used
            error = raised
        with self._news:
            self._running -= 1
            self._errors.append(error)
            self._news.notify()

    def _read(self, name: str) -> int:
        capture = open_capture(int(name) if name.isdecimal() else name)
        shown = without_password(name)
        reader = FrameReader(capture, shown, self._every, live=True)
        try:
            for frame in reader.frames():
                with self._news:
                    self._fresh[name] = frame
                    self._news.notify()
                if self._stop.is_set():
                    break
        except cv2.error as error:  # some backends raise instead of ending
            raise UserError(f"the stream has failed: {error.err}", where=shown) from error
        return reader.read
