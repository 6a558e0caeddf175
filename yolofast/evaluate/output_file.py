"""Results that appear complete or not at all: a run that dies while writing leaves the previous file as it was."""

import os
from pathlib import Path

from yolofast.errors import UserError


def write_output(path: str | Path, content: bytes) -> Path:
    """Written beside, flushed to the disk and renamed; folders are made."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, content)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=path, fix="name another place") from None
    return path


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
