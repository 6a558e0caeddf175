"""Locks by files: one process works and others wait, or are told who is at work.

The system drops the locks of a process that dies, on network file systems too. Where a file system knows no locks, what
the file says of its holder decides: one that is not alive on this machine is gone.
"""

import contextlib
import errno
import fcntl
import json
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import psutil

from yolofast.errors import UserError

_TAKEN = (errno.EAGAIN, errno.EACCES)
_MOST_BYTES = 1000
_held: set[str] = set()
"""Folders that this process holds: it could lock their files again, and lose the lock by closing one."""


@contextlib.contextmanager
def locked(file: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds the lock `file`, which stays on the disk: removing it would let two processes lock different files."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(file, flags, 0o666), "rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class FolderLock:
    """Of one folder at a time, from `take` to the end of the `with`; its file goes then.

    The lock is one that forked processes do not share: workers that outlive a killed run hold nothing.
    """

    def __init__(self, name: str) -> None:
        self._name, self._folder, self._file = name, "", -1

    def take(self, folder: Path) -> None:
        """Once more is nothing. A folder that another run holds is a `UserError` with its process and machine."""
        real = os.path.realpath(folder)
        if real == self._folder:
            return
        if real in _held:
            raise _busy(folder, _own(), self._name)
        self.release()
        while self._file < 0:
            try:
                file = os.open(folder / self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            except OSError:  # nothing can be written there, which the run says in its own words
                return
            try:
                _lock(file, folder, self._name)
            except BaseException:
                os.close(file)
                raise
            if _is_still(folder / self._name, file):
                self._file, self._folder = file, real
            else:  # its holder has just removed it
                os.close(file)
        _held.add(real)
        with contextlib.suppress(OSError):  # a full disk: the lock holds without a name
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps(_own()).encode(), 0)

    def release(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.unlink(Path(self._folder) / self._name)
            os.close(self._file)
            _held.discard(self._folder)
            self._folder, self._file = "", -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_alive(process: int, started: float | None = None) -> bool:
    """Whether it runs on this machine; `started` tells it from a later one with its number."""
    try:
        found = psutil.Process(process)
        same = started is None or abs(found.create_time() - started) < 1
        return same and found.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:  # somebody else's
        return True


def _lock(file: int, folder: Path, name: str) -> None:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _holder(file)
        if error.errno in _TAKEN:
            raise _busy(folder, holder, name) from None
        if holder and (holder["host"] != platform.node() or is_alive(holder["pid"], holder["started"])):
            raise _busy(folder, holder, name) from None


def _own() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": platform.node(), "started": psutil.Process().create_time()}


def _holder(file: int) -> dict[str, Any]:
    """What the file says; nothing if it was not written, or by something else."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        said = json.loads(os.pread(file, _MOST_BYTES, 0))
        kinds = {"pid": int, "host": str, "started": float}
        if isinstance(said, dict) and all(type(said.get(name)) is kind for name, kind in kinds.items()):
            return said
    return {}


def _busy(folder: Path, holder: dict[str, Any], name: str) -> UserError:
    who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
    what = f"the run is being trained by {who}"
    fix = f"wait for it or stop it, or name another folder; if it is gone for sure, delete {folder / name}"
    return UserError(what, where=folder, fix=fix)


def _is_still(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(file))
    except OSError:
        return False
