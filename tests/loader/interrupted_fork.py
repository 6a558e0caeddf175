"""A program that is interrupted while it starts its workers: `python -m tests.loader.interrupted_fork`.

The system hands a signal to any thread that takes it, and training has others than the one that forks; Python then
raises its exception in that one, here in a callback of the fork, such as `logging` has.
"""

import os
import signal
import sys
import threading
import time

from tests.loader.small_set import made_up_loader

HEARS, TELLS = os.pipe()


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    os.read(HEARS, 1)  # until Python has heard of it


if __name__ == "__main__":
    loader = made_up_loader(workers=2)
    os.set_blocking(TELLS, False)
    signal.set_wakeup_fd(TELLS)
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    os.register_at_fork(after_in_parent=interrupt)
    try:
        loader.epoch(0)
    except KeyboardInterrupt:
        sys.exit(130)
