"""A file that appears complete or not at all."""

import os
import threading
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Written beside, flushed to the disk and renamed; raises OSError, and then leaves what was there before.

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
