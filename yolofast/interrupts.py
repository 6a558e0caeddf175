"""Ctrl+C at any moment: it ends an importing command at once, and training never loses it.

During imports `KeyboardInterrupt` is unreliable: Python drops it in callbacks of its import locks, and a compiled
module that it interrupts fails with an unrelated message. Nothing has begun yet, so the process just ends. Later Python
drops it in destructors and callbacks of weak references; `Interrupts` remembers it and raises it again.
Nothing heavy is imported here: until the handler is set, Ctrl+C is Python's.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_INTERRUPTED = 130
INTERRUPTED = "yolofast: interrupted"


def interrupts_end_at_once() -> None:
    """From here to `interrupts_raise`. A process that ignores Ctrl+C, after `nohup` or `&`, still does."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def interrupts_raise() -> None:
    """From now on `KeyboardInterrupt`, as usual."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, f"{INTERRUPTED}\n".encode())
    finally:  # also if nobody reads it
        os._exit(EXIT_INTERRUPTED)


class Interrupts:
    def __init__(self) -> None:
        self._requested = False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """While it is active. A program with a handler of its own, or that trains in another thread, is left alone."""
        in_main_thread = threading.current_thread() is threading.main_thread()
        if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        report_dropped = sys.unraisablehook

        def report(dropped: "sys.UnraisableHookArgs") -> None:
            if not (self._requested and dropped.exc_type is KeyboardInterrupt):
                report_dropped(dropped)

        sys.unraisablehook = report
        signal.signal(signal.SIGINT, self._hear)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.unraisablehook = report_dropped

    def check(self) -> None:
        """Raises `KeyboardInterrupt` if it was raised before and got lost."""
        if self._requested:
            raise KeyboardInterrupt

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._requested = True
        signal.default_int_handler(number, frame)
