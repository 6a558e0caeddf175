"""Ctrl+C while a command is still importing ends it at once.

Its exception is no good there: Python drops one that is raised in the callbacks of its import locks, and a compiled
module whose initialisation it cuts short fails in words of its own. Nothing has been begun yet, so nothing has to be
tidied up.
"""

import os
import signal
from types import FrameType

EXIT_INTERRUPTED = 130
INTERRUPTED = "yolofast: interrupted"


def interrupts_end_at_once() -> None:
    """From here to `interrupts_raise`. What a shell made deaf to Ctrl+C, with `nohup` or `&`, stays so."""
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
