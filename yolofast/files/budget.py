"""How something from outside is opened, and what reading it may cost.

Only plain files are opened: a pipe would be waited for, a device may have no end. A file may lie in a tar file.

A few bytes can ask for any amount of work: by repeating a value, by linking a folder to the root, by promising pixels.
So readers count. A `Budget` is spent, and is one for all that read the same thing: what one reader used up, the next
one does not have. A `Room` is lent: threads that need more than is free wait for one another.

`files_below` walks a folder that a stranger's file names. Links to folders are followed, so a data set may be put
together from several disks. The system's own folders are left out, and what is no data is counted: neither a link to
`/` nor `/proc/self`, whose links lead to all others, leads through the whole machine.
"""

import errno
import io
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from yolofast.errors import UserError

TAR = ".tar"
LARGEST_IMAGE = 2**28
"""Bytes: more than any that may be decoded has, without compression."""
State = tuple[int, int]
"""Bytes and modification time in nanoseconds."""
_HALF_LETTER = re.compile("[\ud800-\udfff]")
_DO_NOT_WAIT = getattr(os, "O_NONBLOCK", 0)  # of no effect on plain files


def is_whole_text(text: str) -> bool:
    """JSON and YAML can spell halves of letters (`\\ud800`), which cannot be printed, drawn or written."""
    return _HALF_LETTER.search(text) is None


def open_regular(path: str | Path) -> BinaryIO:
    """For reading bytes, also of a file in a tar file; raises OSError, also for pipes and devices."""
    try:
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _DO_NOT_WAIT))  # noqa: SIM115 - returned
    except NotADirectoryError:
        from yolofast.files.tar_file import open_member  # for few: it needs NumPy, which `--help` does not

        return open_member(*_tar_and_name(path), LARGEST_IMAGE)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file")
    return file


def opened_text(path: str | Path, *, errors: str = "strict", newline: str | None = None) -> TextIO:
    """For reading UTF-8; some files begin with a mark of it."""
    return io.TextIOWrapper(open_regular(path), encoding="utf-8-sig", errors=errors, newline=newline)


def read_bounded(path: str | Path, most: int = LARGEST_IMAGE) -> bytes:
    """All of it; raises OSError for more. A file may promise any size, and take no room on the disk."""
    with open_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        if size > most:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, more than the {most:,} that are allowed")
        file.seek(0)
        return file.read(most + 1)


def state_of(path: str | bytes) -> State | None:
    """Of a file, or of one in a tar file, which is as old as that; None if it is not there."""
    try:
        status = os.stat(path)
    except NotADirectoryError:
        from yolofast.files.tar_file import member

        found = member(*_tar_and_name(os.fsdecode(path)))
        return None if found is None else (found[0][1], found[1])
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _tar_and_name(path: str | Path) -> tuple[str, str]:
    before, _, name = os.fspath(path).partition(f"{TAR}/")
    return before + TAR, name


def folder_outside(path: Path) -> Path:
    """`path`, or the folder of the tar file that it is in."""
    for place, part in enumerate(path.parts):
        if part.endswith(TAR) and os.path.isfile(os.path.join(*path.parts[: place + 1])):
            return Path(*path.parts[:place])
    return path


class Budget:
    """Steps of work that are left. A step takes about a microsecond and a hundred bytes, or less."""

    def __init__(self, steps: int, refusal: Callable[[], Exception]) -> None:
        self._left, self._refusal = steps, refusal

    def spend(self, steps: int = 1) -> None:
        """Before the work is done: raises the refusal when it would be too much."""
        self._left -= steps
        if self._left < 0:
            raise self._refusal()


class Room:
    """How much all threads of a process may hold at once. Something larger than the room is held alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._empty()
        # A thread may hold some of it while another forks: the child has no such thread, and would wait for ever.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._empty)

    def _empty(self) -> None:
        self._free, self._changed = self._most, threading.Condition()

    @contextmanager
    def hold(self, amount: int) -> Iterator[None]:
        """Waits until there is room. Not to be nested: two threads would wait for each other."""
        amount = min(amount, self._most)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= amount)
            self._free -= amount
        try:
            yield
        finally:
            with self._changed:
                self._free += amount
                self._changed.notify_all()


PIXELS_VARIABLE = "OPENCV_IO_MAX_IMAGE_PIXELS"
_PIXELS_ALLOWED = 2**26
"""Of an image: 8192 × 8192. A header may promise any number, and each takes OpenCV six bytes: 400 MB."""


def _max_pixels() -> int:
    """What the user allows OpenCV, or our own limit."""
    said = os.environ.get(PIXELS_VARIABLE, "")
    return int(said) if said.isdecimal() and len(said) < 20 else _PIXELS_ALLOWED


def limit_decoder() -> None:
    """To be called before OpenCV is imported, which reads it once: then no way to read an image takes more."""
    os.environ.setdefault(PIXELS_VARIABLE, str(_PIXELS_ALLOWED))


MAX_PIXELS = _max_pixels()
DECODING = Room(MAX_PIXELS)
"""In pixels: threads that decode together hold no more than the largest image alone does."""

_SYSTEM = ("/proc", "/sys", "/dev")
_NOT_SYSTEM = ("/dev/shm",)
_OF_THE_DISK = "lost+found"
_MOST_OTHERS = 300_000
_FOLDER = 10
"""Steps that one takes; a file takes one."""
_DEEPEST = 100
_FIX = "name the folder that holds the images, and remove links to folders above it"


def files_below(folder: Path, usual: tuple[str, ...]) -> Iterator[str]:
    """Folder by folder, sorted. Links are followed last, so that what is really below keeps its own name.

    Files that end in one of `usual` are what one looks for: there may be any number of them.
    """
    if _is_system(os.path.realpath(folder)):
        raise UserError("is a folder of the system, and holds no data", where=folder, fix=_FIX)
    what = f"has more than {_MOST_OTHERS:,} folders and files below it that are neither images nor labels"
    budget = Budget(_MOST_OTHERS, lambda: UserError(what, where=folder, fix=_FIX))
    files_of: dict[str, list[str]] = {}
    reached: set[str] = set()
    starts = [str(folder)]
    while starts:
        links = []
        for parent, subfolders, files in (step for start in starts for step in os.walk(start, onerror=_refuse_locked)):
            real = os.path.realpath(parent)
            if real in reached or _is_system(real):
                subfolders.clear()
                continue
            if parent.count(os.sep) > _DEEPEST:
                raise UserError(f"has folders in folders, more than {_DEEPEST} deep", where=folder, fix=_FIX)
            reached.add(real)
            budget.spend(_FOLDER + sum(not name.lower().endswith(usual) for name in files))
            files_of[parent] = sorted(files)
            links += [path for name in subfolders if os.path.islink(path := os.path.join(parent, name))]
        starts = sorted(links)
    for parent in sorted(files_of, key=lambda path: path.split(os.sep)):
        yield from (os.path.join(parent, name) for name in files_of[parent])


def _refuse_locked(error: OSError) -> None:
    """A folder that may not be read: leaving it out would silently leave out a part of the data."""
    if isinstance(error, PermissionError) and os.path.basename(str(error.filename)) != _OF_THE_DISK:
        what, fix = f"cannot be read: {error.strerror}", "check the permissions of that folder (ls -ld)"
        raise UserError(what, where=error.filename, fix=fix)


def _is_system(real: str) -> bool:
    def within(places: tuple[str, ...]) -> bool:
        return any(real == place or real.startswith(f"{place}/") for place in places)

    return within(_SYSTEM) and not within(_NOT_SYSTEM)
