"""Results that appear complete or not at all: a run that dies while writing leaves the previous file as it was."""

from pathlib import Path

from yolofast.atomic_file import write_whole
from yolofast.errors import UserError


def write_output(path: str | Path, content: bytes) -> Path:
    """Written beside, flushed to the disk and renamed; folders are made."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=path, fix="name another place") from None
    return path
