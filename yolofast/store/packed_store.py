"""A store on the disk: one file with all images end to end, and an index of where each is and what it was made of.

The index is an `.npz` of plain arrays. It names its data file, so replacing it replaces the store; processes that have
mapped the old data keep it until they are done. A changed image is noticed by the size and time of its file. A store
is next to the data set if possible, under a name made of its content.
"""

import hashlib
import os
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError
from yolofast.files.atomic_file import DATA_CACHE, may_be_written, opened_new, user_cache_folder
from yolofast.files.budget import folder_outside, open_regular, state_of
from yolofast.files.known_numbers import NO_ARRAYS
from yolofast.files.threads import in_order
from yolofast.image_index import ImageIndex
from yolofast.store.fitted import Fit
from yolofast.words import own_command

RECORD = np.dtype(
    [("start", "<i8"), ("length", "<i8"), ("checksum", "<u4"), ("source_bytes", "<i8"), ("source_mtime_ns", "<i8")]
)
"""One stored image: its place in the data file, the CRC-32 of its bytes, and the state of the file it came from."""

Records = npt.NDArray[np.void]

_VERSION = 1
"""Part of every name; raised when the format or the way pixels are made changes, so that old stores are left alone."""

_SEEKING = threading.Lock()


@dataclass(frozen=True)
class PackedStore:
    """N images; cheap to hand to other processes, which then map the data themselves."""

    data: Path
    files: npt.NDArray[np.bytes_]
    """[N] the image files it was made of."""
    sizes: npt.NDArray[np.int64]
    """[N, 2] width and height as stored."""
    records: Records
    """[N] of `RECORD`."""

    def __len__(self) -> int:
        return len(self.files)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        return np.ascontiguousarray(self.records["start"], dtype=np.int64)

    @property
    def nbytes(self) -> int:
        return int(self.records["length"].sum())

    def is_whole(self) -> bool:
        """Whether the data file is there with all its bytes; whether they are the right ones, `verify` says."""
        try:
            return self.data.stat().st_size == self.nbytes
        except OSError:
            return False


def read_store(index_file: Path) -> PackedStore | None:
    """The store an index describes; None if there is none, or one that cannot be understood and has to be made anew."""
    try:
        with open_regular(index_file) as file, np.load(file, allow_pickle=False) as arrays:
            data = index_file.with_name(str(arrays["data"]))
            store = PackedStore(data, arrays["files"], arrays["sizes"], arrays["records"])
    except NO_ARRAYS:
        return None
    return store if _is_consistent(store) else None


def write_store(store: PackedStore, index_file: Path) -> None:
    """Writes the index to `index_file`, which is not there yet, down to the disk."""
    with opened_new(index_file) as file:
        name = np.array(store.data.name)
        np.savez(file, data=name, files=store.files, sizes=store.sizes, records=store.records)
        file.flush()
        os.fsync(file.fileno())


def verify(
    store: PackedStore, *, threads: int = 1, progress: Callable[[int, int], None] | None = None
) -> tuple[Path, ...]:
    """Reads everything and compares the checksums; the image files whose stored bytes are damaged."""
    damaged = []
    with open_data(store) as file:
        number = file.fileno()
        contents = in_order(lambda i: stored_bytes(store.records[i], number) is None, range(len(store)), threads)
        for image, is_damaged in enumerate(contents):
            if is_damaged:
                damaged.append(Path(os.fsdecode(store.files[image])))
            if progress is not None:
                progress(image + 1, len(store))
    return tuple(damaged)


def open_data(store: PackedStore) -> BinaryIO:
    """The data file, open for reading; refused if it is not all there."""
    try:
        file = open_regular(store.data)
    except OSError as error:
        what = f"the packed images cannot be read: {error.strerror}"
        raise UserError(what, where=store.data, fix=f"pack them again: {own_command()} pack") from None
    found = os.fstat(file.fileno()).st_size
    if found != store.nbytes:
        file.close()
        what = f"the packed images should be {store.nbytes:,} bytes, but {found:,} are there"
        raise UserError(what, where=store.data, fix=f"pack them again: {own_command()} pack")
    return file


def stored_bytes(record: np.void, file_number: int) -> bytes | None:
    """The bytes a record describes; None if they are not what was written, or the disk fails to give them."""
    try:
        content = _read_at(file_number, int(record["start"]), int(record["length"]))
    except OSError:
        return None
    return content if zlib.crc32(content) == int(record["checksum"]) else None


def _read_at(file_number: int, start: int, length: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(file_number, length, start)
    with _SEEKING:  # Windows: threads share the position in a file
        os.lseek(file_number, start, os.SEEK_SET)
        return os.read(file_number, length)


def _is_consistent(store: PackedStore) -> bool:
    count = store.files.size
    if store.records.dtype != RECORD or store.records.shape != (count,) or store.sizes.shape != (count, 2):
        return False
    if store.files.dtype.kind != "S" or store.files.ndim != 1 or store.sizes.dtype.kind != "i":
        return False
    lengths, starts = store.records["length"], store.records["start"]
    follow = (starts == np.cumsum(lengths) - lengths) & (starts >= 0)  # a sum that is too large for its type is below 0
    return bool(follow.all() and (lengths >= 0).all() and (store.sizes > 0).all())


def source_states(files: npt.NDArray[np.bytes_]) -> Records:
    """[N] records that hold only the present state of the image files; -1 for a file that is not there."""
    found = np.array([_state(file) for file in files], np.int64).reshape(-1, 2)
    states = np.zeros(len(files), RECORD)
    states["source_bytes"], states["source_mtime_ns"] = found.T
    return states


def same_source(records: Records, sources: Records) -> npt.NDArray[np.bool_]:
    """[N] whether the image files are still the ones the records were made of."""
    same: npt.NDArray[np.bool_] = (records["source_bytes"] == sources["source_bytes"]) & (
        records["source_mtime_ns"] == sources["source_mtime_ns"]
    )
    return same


def _state(file: bytes) -> tuple[int, int]:
    return state_of(file) or (-1, -1)


def store_name(index: ImageIndex, fit: Fit, flavour: str) -> str:
    """Equal for the same files in the same order, fitted the same way."""
    key = hashlib.sha256(f"{_VERSION} {flavour} {fit}\n".encode())
    for file in index.files:
        key.update(file + b"\0")
    return f"{fit.width}x{fit.height}-{fit.interpolation}-{key.hexdigest()[:16]}"


def store_folder(index: ImageIndex, name: str) -> Path:
    """Where the store `name` is: next to the data if it is there already or can be written, else in the cache."""
    folder = _data_folder(index)
    if folder is not None:
        # The folder may still have to be made.
        writable = may_be_written(folder if folder.exists() else folder.parent)
        if writable or (folder / f"{name}.index").exists():
            return folder
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
    common = folder_outside(common)
    return None if common == common.parent else common / DATA_CACHE
