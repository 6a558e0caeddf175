"""`python -m tests.train.distributed.light_torchrun WORDS`: as `torchrun`, but its ranks are forked.

They have in memory what they would import. `torchrun` as it is typed starts the ranks of one of the tests.
"""

import os
import subprocess
import sys
import traceback

from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler
from torch.distributed.run import main

from tests import programs


class Rank(subprocess.Popen):
    """`Popen` of `[sys.executable, "-u", …]`."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *more):
        assert args[:2] == (sys.executable, "-u"), args
        self.pid = os.fork()
        self._child_created = True
        if self.pid == 0:
            code = 1
            try:
                streams = [os.dup(one) for one in (0, 1, 2)]
                programs._become({"session": True, "cwd": os.getcwd(), "env": env}, streams)
                code = _exit_code(list(args[2:]))
            finally:
                sys.stdout.flush()
                os._exit(code)


def _exit_code(args):
    try:
        programs._run(args)
    except SystemExit as ended:
        return ended.code or 0
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    subprocess_handler.Popen = Rank
    main(sys.argv[1:])
