"""How a command is run and ends: its exit code, and one message for a mistake of the user.

Ctrl+C at any moment: it ends an importing command at once, and training never loses it.

During imports `KeyboardInterrupt` is unreliable: Python drops it in callbacks of its import locks, and a compiled
module that it interrupts fails with an unrelated message. Nothing has begun yet, so the process just ends. Later Python
drops it in destructors and callbacks of weak references; `Interrupts` remembers it and raises it again.
"""

import argparse
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from yolofast.errors import UserError
from yolofast.extensions import found

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
        self._asked = False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """While it is active. A program with a handler of its own, or that trains in another thread, is left alone."""
        in_main_thread = threading.current_thread() is threading.main_thread()
        if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        report_dropped = sys.unraisablehook

        def report(dropped: "sys.UnraisableHookArgs") -> None:
            if not (self._asked and dropped.exc_type is KeyboardInterrupt):
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
        if self._asked:
            raise KeyboardInterrupt

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        signal.default_int_handler(number, frame)


EXIT_OK, EXIT_BAD_INPUT = 0, 2
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run_command(where: str, args: argparse.Namespace) -> int:
    """Imports and calls the function `module:name`; its exit code."""
    return call(lambda: _run(where, args))


def _run(where: str, args: argparse.Namespace) -> int | None:
    command: Callable[[argparse.Namespace], int | None] = found(where)
    interrupts_raise()  # not before: `call` catches them
    return command(args)


def call(command: Callable[[], int | None]) -> int:
    """The exit code of a command; a mistake of the user becomes one message."""
    code = EXIT_OK  # of commands that return nothing, or whose reader leaves early
    try:
        code = command() or EXIT_OK
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        # Files that users name are checked where they are; what is left is a run's own, or the terminal or disk that
        # the output goes to, which have no name.
        if error.filename is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"yolofast: error: {_in_words(error)}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except UserError as error:
        print(f"yolofast: error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return EXIT_INTERRUPTED
    return code


def _in_words(error: OSError) -> str:
    what = error.strerror or str(error)
    if error.filename is None:
        return f"the output cannot be written: {what}\n  fix: make room"
    fix = "make room on that disk" if error.errno in _NO_ROOM else "check the path and the permissions"
    return f"{error.filename}: {what}\n  fix: {fix}; continue a stopped run with --resume"
