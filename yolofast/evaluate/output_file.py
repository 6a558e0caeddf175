"""Results that appear complete or not at all: a run that dies while writing leaves the previous file as it was."""

from collections.abc import Callable
from pathlib import Path

from yolofast.atomic_file import write_whole
from yolofast.errors import UserError


def write_output(path: str | Path, content: bytes) -> Path:
    """Written beside, flushed to the disk and renamed; folders are made."""
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
