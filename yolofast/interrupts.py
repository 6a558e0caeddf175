"""Ctrl+C at any moment, and what clusters and closed terminals send: a command stops, and nothing of it is lost.

During imports `KeyboardInterrupt` is unreliable: Python drops it in callbacks of its import locks, and a compiled
module that it interrupts fails with an unrelated message. Nothing has begun yet, so the process just ends. Later Python
drops it in destructors and callbacks of weak references; `Interrupts` remembers it and raises it again.
Nothing heavy is imported here: until the handler is set, Ctrl+C is Python's.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_INTERRUPTED = 130
INTERRUPTED = "yolofast: interrupted"
STOPS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name))
"""Of batch systems, a terminal that closes, and a time limit that comes near."""
_CAN_BLOCK = hasattr(signal, "pthread_sigmask")
"""Windows cannot, and does not need to: what starts there hears nothing before it wants to."""
_ECHO_S = 0.25
"""A closed terminal or a cancelled job tells a process itself and by what started it: the same signal again, within
this time, is no second one."""

_told, _told_at = 0, 0.0
"""Which of `STOPS` came first, and when."""


def interrupts_end_at_once() -> None:
    """From here to `interrupts_raise`. A process that ignores Ctrl+C, after `nohup` or `&`, still does."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def interrupts_raise() -> None:
    """From now on `KeyboardInterrupt`, as usual."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def stops_raise() -> Iterator[None]:
    """Inside, `STOPS` raise `KeyboardInterrupt` as well, and another one ends the process at once.

    One that is ignored, after `nohup`, or handled by the program, still is.
    """
    global _told
    _told = 0
    in_main_thread = threading.current_thread() is threading.main_thread()
    taken = [number for number in STOPS if in_main_thread and signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def told_to_stop() -> bool:
    """By one of `STOPS`, which other processes of the command need not have heard."""
    return bool(_told)


def exit_code() -> int:
    """Of a command that was interrupted: 128 and the number of the signal, which is what shells and clusters expect."""
    return 128 + _told if _told else EXIT_INTERRUPTED


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """They come at the end; processes that start here do not hear them at all, except to be terminated.

    In its first moments each would print a traceback. Blocked here, a signal may still be given to another thread, and
    Python then raises its exception in the main one: in a callback of the fork (`logging` has some), where it is
    printed and lost. So it is noted, and handled afterwards.
    """
    noted, numbers = list[int](), (signal.SIGINT, *STOPS)
    in_main_thread = threading.current_thread() is threading.main_thread()
    usual = {number: signal.getsignal(number) for number in numbers if in_main_thread}
    usual = {number: handler for number, handler in usual.items() if callable(handler)}
    for number in usual:
        signal.signal(number, lambda number, frame: noted.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, set(numbers) - {signal.SIGTERM}) if _CAN_BLOCK else set()
    try:
        yield
    finally:
        if _CAN_BLOCK:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in usual.items():
            signal.signal(number, handler)
        first = usual.get(signal.Signals(noted[0])) if noted else None
        if callable(first):
            first(noted[0], None)


def leave_interrupts_to_parent() -> None:
    """In a worker: signals to a terminal's or a job's processes reach all of them, and the parent ends its workers."""
    for number in (signal.SIGINT, *STOPS):
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    if _CAN_BLOCK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, *STOPS})


def _stop(number: int, frame: FrameType | None) -> None:
    global _told, _told_at
    if not _told:
        _told, _told_at = number, time.monotonic()
        raise KeyboardInterrupt
    if number != _told or time.monotonic() - _told_at >= _ECHO_S:
        _end(number, frame)


def _end(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, f"{INTERRUPTED}\n".encode())
    finally:  # also if nobody reads it
        os._exit(128 + number)


class Interrupts:
    def __init__(self) -> None:
        self._requested = False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """While it is active. A program with a handler of its own, or that trains in another thread, is left alone."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        report_dropped = sys.unraisablehook

        def report(dropped: "sys.UnraisableHookArgs") -> None:
            if not ((self._requested or _told) and dropped.exc_type is KeyboardInterrupt):
                report_dropped(dropped)

        sys.unraisablehook = report
        takes = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if takes:
            signal.signal(signal.SIGINT, self._hear)
        try:
            yield
        finally:
            if takes:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.unraisablehook = report_dropped

    def check(self) -> None:
        """Raises `KeyboardInterrupt` if it was raised before and got lost."""
        if self._requested or _told:
            raise KeyboardInterrupt

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._requested = True
        signal.default_int_handler(number, frame)
