"""Locks by files: one process works and others wait, or are told who is at work.

The system drops the locks of a process that dies, on network file systems too. Where a file system knows no locks, what
the file says of its holder decides: one that is not alive on this machine is gone.
"""

import contextlib
import errno
import json
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import psutil
from filelock import FileLock, Timeout

from yolofast.errors import UserError

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_SAID_FROM = 1
"""Where the holder writes its name: Windows lets nobody read the first byte of a locked file."""
_MOST_BYTES = 1000


@contextlib.contextmanager
def locked(file: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds the lock `file`, which stays on the disk: removing it would let two processes lock different files."""
    lock = FileLock(file, preserve_lock_file=True)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


class FolderLock:
    """Of one folder at a time, from `take` to the end of the `with`; its file goes then.

    Forked processes do not share the lock: workers that outlive a killed run hold nothing.
    """

    def __init__(self, name: str) -> None:
        self._name, self._folder = name, ""
        self._lock: FileLock | None = None

    def take(self, folder: Path) -> None:
        """Once more is nothing. A folder that another run holds is a `UserError` with its process and machine."""
        real = os.path.realpath(folder)
        if real == self._folder:
            return
        self.release()
        path = folder / self._name
        lock = FileLock(path, thread_local=False, fallback_to_soft=False, on_acquired=_say_whose)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise _busy(folder, _holder(path), self._name) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:  # nothing can be written there, which the run says in its own words
                return
            _take_without_locks(folder, self._name)
        self._lock, self._folder = lock, real

    def release(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):  # Windows removes it when it is released
                os.unlink(Path(self._folder) / self._name)
            self._lock.release()
            self._folder, self._lock = "", None

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


def _take_without_locks(folder: Path, name: str) -> None:
    """Between the look and the writing another process could do the same: nothing better is to be had there."""
    holder = _holder(folder / name)
    if holder and (holder["host"] != platform.node() or is_alive(holder["pid"], holder["started"])):
        raise _busy(folder, holder, name)
    with contextlib.suppress(OSError), open(folder / name, "r+b") as file:
        _say_whose(file.fileno())


def _say_whose(file: int) -> None:
    with contextlib.suppress(OSError):  # a full disk: the lock holds without a name
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)
        os.write(file, b" " * _SAID_FROM + json.dumps(_own()).encode())


def _own() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": platform.node(), "started": psutil.Process().create_time()}


def _holder(path: Path) -> dict[str, Any]:
    """What the file says; nothing if it was not written, or by something else."""
    with contextlib.suppress(OSError, ValueError, RecursionError), open(path, "rb", buffering=0) as file:
        file.seek(_SAID_FROM)
        said = json.loads(file.read(_MOST_BYTES))
        kinds = {"pid": int, "host": str, "started": float}
        if isinstance(said, dict) and all(type(said.get(name)) is kind for name, kind in kinds.items()):
            return said
    return {}


def _busy(folder: Path, holder: dict[str, Any], name: str) -> UserError:
    who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
    what = f"the run is being trained by {who}"
    fix = f"wait for it or stop it, or name another folder; if it is gone for sure, delete {folder / name}"
    return UserError(what, where=folder, fix=fix)
