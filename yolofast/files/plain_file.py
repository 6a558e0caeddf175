"""Opening what should be a plain file: a pipe or a device of that name is an error instead of an endless wait.

Run folders may come from strangers, so links in them are refused too (`open_plain`): a `results.png` could link to a
private file.
"""

import errno
import os
import stat
from io import FileIO
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

File = TypeVar("File", FileIO, BinaryIO)

_DO_NOT_WAIT = getattr(os, "O_NONBLOCK", 0)  # of no effect on plain files
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


class Stamp(NamedTuple):
    """What changes when a file does."""

    changed_ns: int
    size: int
    inode: int

    @property
    def seconds(self) -> float:
        return self.changed_ns / 1e9


def stamp(path: Path) -> Stamp | None:
    """None if there is no plain file of that name."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return Stamp(found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def open_plain(path: Path) -> FileIO:
    """For reading bytes; raises OSError, also for links, pipes and devices."""
    return _regular(
        open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | _DO_NOT_WAIT | _NO_LINKS))
    )


def open_regular(path: str | Path) -> BinaryIO:
    """The same through a link, and buffered."""
    return _regular(open(path, "rb", opener=lambda name, flags: os.open(name, flags | _DO_NOT_WAIT)))


def _regular(file: File) -> File:
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file")
    return file


def read_plain(path: Path, most: int) -> bytes | None:
    """The whole file; None if it is not there or larger than `most` bytes."""
    try:
        with open_plain(path) as file:
            content = b""
            while len(content) <= most and (part := file.read(most + 1 - len(content))):
                content += part
    except OSError:
        return None
    return content if len(content) <= most else None
