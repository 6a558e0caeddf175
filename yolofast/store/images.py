"""The images of a store, or of the files themselves, as loaders read them.

A store is mapped into memory, not read: its pages belong to the system's page cache, one copy for all processes of the
machine, and make way when memory is wanted. The mapping is private, so a write by mistake stays in the process that
made it and never reaches the file. It belongs to its process: to a process that is spawned rather than forked, hand the
`PackedStore` and open it there.
"""

import mmap
import sys

import numpy as np
import numpy.typing as npt
import torch

from yolofast.errors import UserError
from yolofast.image_index import ImageIndex
from yolofast.own_command import own_command
from yolofast.pixels import Image, PackedImages
from yolofast.store.fitted import Fit, decoded_jpeg, read_fitted
from yolofast.store.packed_store import PackedStore, open_data

# Private pages are reserved as if all were written to, which Linux refuses for more than the machine's memory.
_UNRESERVED = 0x4000 if sys.platform == "linux" else 0


def open_packed(store: PackedStore) -> PackedImages:
    """A store of plain pixels, mapped."""
    return PackedImages(torch.from_numpy(mapped(store)), store.starts, store.sizes)


class JpegImages:
    """A store of JPEGs, mapped; every use of an image decodes it."""

    def __init__(self, store: PackedStore) -> None:
        self._store, self._data = store, mapped(store)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        return self._store.sizes

    def encoded(self, index: int) -> npt.NDArray[np.uint8]:
        """[bytes] the JPEG itself, for a decoder on the GPU."""
        record = self._store.records[index]
        start = int(record["start"])
        return self._data[start : start + int(record["length"])]

    def image(self, index: int) -> Image:
        image = decoded_jpeg(self.encoded(index))
        width, height = self.sizes[index]
        if image is None or image.shape[:2] != (height, width):
            what = f"the JPEG packed from {self._store.files[index].decode(errors='replace')} is damaged"
            raise UserError(what, where=self._store.data, fix=f"delete the file and pack again: {own_command()} pack")
        return image

    def __reduce__(self) -> tuple[type["JpegImages"], tuple[PackedStore]]:
        return JpegImages, (self._store,)


class FileImages:
    """No store: every use of an image reads, decodes and resizes its file. The pixels are those of a packed store."""

    def __init__(self, index: ImageIndex, width: int, height: int, augmented: bool) -> None:
        self._index, self._fit = index, Fit(width, height, augmented)
        self._sizes = self._fit.sizes(index.sizes)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        return self._sizes

    def image(self, index: int) -> Image:
        return read_fitted(self._index.path(index), self._index.sizes[index], self._fit)


def mapped(store: PackedStore) -> npt.NDArray[np.uint8]:
    """[bytes] the data file."""
    with open_data(store) as file:
        if not store.nbytes:
            return np.empty(0, np.uint8)
        pages = mmap.mmap(
            file.fileno(),
            store.nbytes,
            flags=mmap.MAP_PRIVATE | _UNRESERVED,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )
    return np.frombuffer(pages, np.uint8)
