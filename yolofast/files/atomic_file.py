"""Files that appear complete or not at all, and the folders for those that can be made again."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from yolofast.errors import UserError

DATA_CACHE = ".yolofast"
"""The folder of caches next to the data they were made of."""
_ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def write_whole(path: Path, content: bytes) -> None:
    """Written under another name, flushed to the disk and renamed; raises OSError, and then leaves the earlier file.

    The error names `path`: that of a full disk names no file.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


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
