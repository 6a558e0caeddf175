"""Where files that can be made again are kept: beside the data they were made of, or in the user's cache folder."""

import os
import stat
from pathlib import Path

BESIDE = ".yolofast"
"""The folder beside the data."""
_ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


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
