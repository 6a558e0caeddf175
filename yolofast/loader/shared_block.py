"""Memory that several processes see and no file names, so nothing is left behind however they end.

`memfd_create` gives just that, and is bounded by the machine's memory alone: a container's small /dev/shm, on which
many a trainer fails, plays no part. Pythons built for older systems lack it; there it is a file in /dev/shm, unlinked
at once, and the room in it is checked.
"""

import mmap
import os
import shutil
import tempfile
from pathlib import Path

from yolofast.errors import UserError
from yolofast.store.room import ram_free
from yolofast.words import amount

_SHM = Path("/dev/shm")


class SharedBlock:
    """`memory` is shared with processes forked from now on, and with those that get `file`."""

    def __init__(self, nbytes: int) -> None:
        self.file = _nameless_file()
        try:
            os.posix_fallocate(self.file, 0, nbytes)  # fails here and now, not by a signal when it is written to
            self.memory = mmap.mmap(self.file, nbytes)
        except OSError as error:
            os.close(self.file)
            what = f"{amount(nbytes)} of shared memory cannot be had: {error.strerror}"
            raise UserError(what, fix=_remedy()) from None

    def close_file(self) -> None:
        """The memory stays as long as anything refers to it."""
        os.close(self.file)


def check_room(nbytes: int, purpose: str) -> None:
    """Refuse before work starts what shared memory cannot hold."""
    free = ram_free() if _has_memfd() else min(ram_free(), shutil.disk_usage(_shm_folder()).free)
    if nbytes > free:
        place = "memory" if _has_memfd() else str(_shm_folder())
        what = f"{purpose} need {amount(nbytes)} of shared memory, but {amount(free)} of {place} is free"
        raise UserError(what, fix=_remedy())


def _remedy() -> str:
    fewer = "use fewer --workers or a smaller --batch-size"
    return fewer if _has_memfd() else f"{fewer}, or start the container with a larger --shm-size"


def _nameless_file() -> int:
    if _has_memfd():
        return os.memfd_create("yolofast")
    with tempfile.TemporaryFile(dir=_shm_folder()) as file:
        return os.dup(file.fileno())


def _has_memfd() -> bool:
    return hasattr(os, "memfd_create")


def _shm_folder() -> Path:
    return _SHM if _SHM.is_dir() else Path(tempfile.gettempdir())
