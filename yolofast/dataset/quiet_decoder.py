"""Silence while images of unknown quality are decoded.

The decoders inside OpenCV write their complaints straight to file descriptor 2, past Python and past OpenCV's own log
level; a broken image becomes a fault with its name instead. The price: whatever else the process writes there meanwhile
is lost too, so the region is kept to the decoding itself.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STDERR = 2


class _Silence:
    """Shared by all threads, since the descriptor is: the first one in closes the door, the last one out opens it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._saved: int | None = None

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            try:
                self._saved = os.dup(_STDERR)
            except OSError:  # a process without one has nothing to silence
                return
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, _STDERR)
            os.close(nowhere)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._saved is not None:
                os.dup2(self._saved, _STDERR)
                os.close(self._saved)
                self._saved = None


_silence = _Silence()


@contextmanager
def quiet_decoder() -> Iterator[None]:
    _silence.enter()
    try:
        yield
    finally:
        _silence.leave()
