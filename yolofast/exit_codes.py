"""How a command ends: its exit code, and one message for mistakes that the user can mend."""

import errno
import os
import sys
from collections.abc import Callable

from yolofast.errors import UserError
from yolofast.interrupts import EXIT_INTERRUPTED, INTERRUPTED

EXIT_OK, EXIT_BAD_INPUT = 0, 2
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def call(command: Callable[[], int | None]) -> int:
    """The exit code of a command: mistakes the user can mend become one message."""
    code = EXIT_OK  # of commands that return nothing, or whose reader leaves early
    try:
        code = command() or EXIT_OK
        sys.stdout.flush()
    except BrokenPipeError:  # whoever was reading has seen enough
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
    return f"{error.filename}: {what}\n  fix: {fix}; a run that stopped goes on with --resume"
