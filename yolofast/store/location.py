"""Where a store lies and what it is called: beside the data set if possible, under a name made of its content."""

import hashlib
import os
from pathlib import Path

from yolofast.cache_folder import BESIDE, may_be_written, user_cache_folder
from yolofast.image_index import ImageIndex
from yolofast.store.fitted import Fit

_VERSION = 1
"""Part of every name; raised when the format or the way pixels are made changes, so that old stores are left alone."""


def store_name(index: ImageIndex, fit: Fit, flavour: str) -> str:
    """Equal for the same files in the same order, fitted the same way."""
    key = hashlib.sha256(f"{_VERSION} {flavour} {fit}\n".encode())
    for file in index.files:
        key.update(file + b"\0")
    return f"{fit.width}x{fit.height}-{fit.interpolation}-{key.hexdigest()[:16]}"


def store_folder(index: ImageIndex, name: str) -> Path:
    """Where the store `name` lies: beside the data if it is there already or can be written, else in the cache."""
    beside = _data_folder(index)
    if beside is not None and ((beside / f"{name}.index").exists() or _can_write(beside)):
        return beside
    return user_cache_folder() / "stores"


def _data_folder(index: ImageIndex) -> Path | None:
    """`.yolofast` in the folder that holds `images`, or that holds all files; None if only the root does."""
    if not len(index):
        return None
    first, last = os.fsdecode(min(index.files)), os.fsdecode(max(index.files))
    common = Path(os.path.commonpath([os.path.dirname(first), os.path.dirname(last)]))
    if "images" in common.parts:
        while common.name != "images":
            common = common.parent
        common = common.parent
    return None if common == common.parent else common / BESIDE


def _can_write(folder: Path) -> bool:
    """Whether a file can be made in `folder`, which may have to be made itself."""
    return may_be_written(folder if folder.exists() else folder.parent)
