"""Noticing that another rank has died or given up, within seconds, whatever this one is doing.

A rank that waits for a dead one would wait for hours: collectives know only time-outs, and those have to be long,
because packing a data set takes as long as it takes. So a thread of every rank beats in the store the ranks met at.
The first rank looks at all beats, the others at its own. Beats are counted, not timed: a machine that slept and
woke up finds everybody alive.
"""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore, Store

_PERIOD = 1.0
_MOST_MISSED = 10
_TO_COME_ROUND = 3.0
"""Seconds until the main thread has noticed what it was told, if it is not waiting."""
_STORE_WAIT = timedelta(seconds=5)
EXIT_STOPPED = 2


class Watch(threading.Thread):
    """Runs until `stop`, and ends the process if another one has ended."""

    def __init__(self, store: Store, rank: int, world: int) -> None:
        super().__init__(name="yolofast-watch", daemon=True)
        self._store, self._rank = store, rank
        self._watched = [other for other in range(world) if other != rank] if rank == 0 else [0]
        self._beats = dict.fromkeys(self._watched, 0)
        self._missed = dict.fromkeys(self._watched, 0)
        self._failures = 0
        self._stopped = threading.Event()
        self.round = 0
        """How often the ranks have called something off and met again."""
        self.when_called_off: Callable[[], None] = lambda: None
        """Frees a main thread that waits for ranks which have left; called until the next round."""

    @staticmethod
    def of_environment(rank: int, world: int) -> "Watch":
        """With a connection of its own: others may be blocked while their rank waits."""
        store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
        store.set_timeout(_STORE_WAIT)
        # A launcher that starts ranks again lets them meet at the same store.
        attempt = f"{os.environ.get('TORCHELASTIC_RUN_ID', '')}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '')}"
        return Watch(PrefixStore(f"yolofast/{attempt}", store), rank, world)

    def run(self) -> None:
        while not self._stopped.wait(_PERIOD):
            try:
                reason = self.look()
                self._failures = 0
            except RuntimeError:  # the store is gone, and with it whoever kept it
                self._failures += 1
                reason = "the process that started the run does not answer" if self._failures >= 3 else None
            if reason is not None and not self._stopped.is_set():
                self._end(reason)

    def stop(self) -> None:
        self._stopped.set()

    def announce(self, reason: object) -> bool:
        """Tell the others that this rank has stopped; whether it was the first to do so, and is to say why."""
        own = f"{self._rank}: {type(reason).__name__} {reason}"[:500]
        try:
            said = self._store.compare_set("ended", "", own)
        except RuntimeError:
            return True  # nobody can have heard of it
        return bytes(said).decode(errors="replace") == own

    def call_off(self) -> None:
        """Tell the others to leave what they are in the middle of, and to meet again."""
        self._store.set(f"called off/{self.round}", str(self._rank))

    def is_called_off(self) -> bool:
        return bool(self._store.check([f"called off/{self.round}"]))

    def look(self) -> str | None:
        """Why this rank has to stop, if it has to."""
        self._store.add(f"beat/{self._rank}", 1)
        if self._store.check(["ended"]):
            return ""
        if self.is_called_off():
            self.when_called_off()
        for other in self._watched:
            beats = self._store.add(f"beat/{other}", 0)
            alive = beats != self._beats[other]
            self._beats[other] = beats
            self._missed[other] = 0 if alive else self._missed[other] + 1
            if self._missed[other] > _MOST_MISSED:
                return f"rank {other} does not answer any more"
        return None

    def _end(self, reason: str) -> None:
        """The process ends at once: its main thread may be waiting for somebody who is gone. That of the first rank is
        asked before, and leaves the run's mark and report if it hears."""
        if reason and self.announce(reason):
            say_why(f"{reason}, so all others stopped")
        sys.stdout.flush()
        if self._rank == 0:
            _thread.interrupt_main(signal.SIGTERM)
            if self._stopped.wait(_TO_COME_ROUND):
                return
        os._exit(EXIT_STOPPED)


def say_why(what: str) -> None:
    fix = "the last checkpoint is whole: continue with --resume"
    sys.stderr.write(f"yolofast: error: {what}\n  fix: {fix}\n")
    sys.stderr.flush()
