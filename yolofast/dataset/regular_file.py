"""Opening what should be a plain file: a pipe or a device of that name is an error instead of an endless wait."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_DO_NOT_WAIT = getattr(os, "O_NONBLOCK", 0)  # of no effect on plain files


def open_regular(path: str | Path) -> BinaryIO:
    """For reading bytes; raises OSError, also for a pipe, a socket or a device."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _DO_NOT_WAIT))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file")
    return file
