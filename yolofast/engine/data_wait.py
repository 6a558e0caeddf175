"""For how long the device had nothing to do because no batch was there.

On a GPU that is not what the host waits: it is some steps ahead, and a batch that comes late costs nothing while these
are at work.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from yolofast.engine.profile_clock import Clock


class DataWait:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: deque[tuple[Any, Any]] = deque()
        self._ms = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Around asking for a batch."""
        asked = self._clock.moment()
        yield
        self._pending.append((asked, self._clock.moment()))

    @property
    def seconds(self) -> float:
        """So far, as the device has got there. Waits for nothing."""
        while self._pending and self._clock.is_past(self._pending[0][1]):
            self._ms += self._clock.between(*self._pending.popleft())
        return self._ms / 1e3
