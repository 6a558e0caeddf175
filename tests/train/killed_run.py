"""`yolofast`, killed at a moment it cannot miss: `python -m tests.train.killed_run NAME COUNT train …`.

That is where `Recorder.NAME` is called for the COUNT-th time. Whoever looks for a moment from outside is late for it on
a busy machine.
"""

import os
import signal
import sys

from yolofast.cli import main
from yolofast.train.record import Recorder


def kill_at(name, count):
    calls, method = [], getattr(Recorder, name)

    def counted(*arguments):
        calls.append(arguments)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return method(*arguments)

    setattr(Recorder, name, counted)


if __name__ == "__main__":
    kill_at(sys.argv[1], int(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
