"""The state of image files, size and time of change, by which a changed image is noticed."""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError
from yolofast.image_index import ImageIndex
from yolofast.store.packed_store import RECORD, Records

_ABSENT = (-1, -1)


def source_states(index: ImageIndex) -> Records:
    """[N] records that hold only the present state of the image files; -1 for a file that is not there."""
    found = np.array([_state(file) for file in index.files], np.int64).reshape(-1, 2)
    states = np.zeros(len(index), RECORD)
    states["source_bytes"], states["source_mtime_ns"] = found.T
    return states


def source_state(file: Path) -> Records:
    """[1] the record of one file's present state."""
    state = np.zeros(1, RECORD)
    try:
        found = file.stat()
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=file, fix="restore or remove the file") from None
    state["source_bytes"], state["source_mtime_ns"] = found.st_size, found.st_mtime_ns
    return state


def same_source(records: Records, sources: Records) -> npt.NDArray[np.bool_]:
    """[N] whether the image files are still the ones the records were made of."""
    same: npt.NDArray[np.bool_] = (records["source_bytes"] == sources["source_bytes"]) & (
        records["source_mtime_ns"] == sources["source_mtime_ns"]
    )
    return same


def _state(file: bytes) -> tuple[int, int]:
    try:
        found = os.stat(file)
    except OSError:
        return _ABSENT
    return found.st_size, found.st_mtime_ns
