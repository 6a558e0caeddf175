"""Files that appear complete or not at all, and the folders for those that can be made again."""

import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from yolofast.errors import UserError
from yolofast.files.lock import is_alive

DATA_CACHE = ".yolofast"
"""The folder of caches next to the data they were made of."""
_ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
"""Windows has neither: there, links take an administrator's rights, and no child inherits what is not named to it."""


def write_whole(path: Path, content: bytes) -> None:
    """Written under another name, flushed to the disk and renamed; raises OSError, and then leaves the earlier file.

    The error names `path`: that of a full disk names no file.
    """
    write_whole_by(path, lambda file: file.write(content))


def write_whole_by(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """The same, for content that need not be in memory at once."""
    temporary = name_beside(path)
    try:
        with opened_new(temporary) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def name_beside(path: Path, ending: str = "") -> Path:
    """For what will take the place of `path`; nobody can guess it, and it says whose it is."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp{ending}")


def opened_new(path: Path) -> BinaryIO:
    """A file that was not there: neither what another user has put in its place is written to, nor through a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def opened_own(path: Path) -> BinaryIO:
    """A file that is continued at its end, under a name that others know: not through a link that they put there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINKS
    return os.fdopen(os.open(path, flags, 0o666), "ab")


def sync_folder(folder: Path) -> None:
    """A rename is only durable once the folder is on the disk too; Windows has no such call."""
    if os.name != "posix":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def remove_abandoned(folder: Path, name: str = "", *, folders: bool = False) -> None:
    """What processes that are gone had not finished: of this file, or of all in the folder; `folders` instead."""
    form = re.compile(rf"\.{re.escape(name) or '.+'}\.(\d+)(-[0-9a-f]+)?\.tmp(\.\w+)?")
    for path in folder.glob(".*.tmp*"):
        found = form.fullmatch(path.name)
        if not found or path.is_dir() != folders or is_alive(int(found[1])):
            continue
        if folders:
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def write_output(path: str | Path, content: bytes) -> Path:
    """`write_whole` for a place that a user has named: folders are made, and what is in the way is said."""
    return _write(Path(path), content, write_whole)


def write_one_of_many(path: str | Path, content: bytes) -> Path:
    """One of thousands of small files, which would take minutes if each were waited for until it is on the disk."""
    return _write(Path(path), content, Path.write_bytes)


def _write(path: Path, content: bytes, write: Callable[[Path, bytes], object]) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, content)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=path, fix="name another place") from None
    return path


def user_cache_folder() -> Path:
    """`YOLOFAST_CACHE`, or the user's cache folder."""
    if chosen := os.environ.get("YOLOFAST_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "yolofast"


def may_be_written(folder: Path) -> bool:
    """Goes by the folder's mode too: an administrator could write into one that is marked read-only, but must not."""
    try:
        return bool(folder.stat().st_mode & _ANY_WRITE) and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False
