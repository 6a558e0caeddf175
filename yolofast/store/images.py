"""The images of a split as loaders read them, wherever it is best to keep them: from a store, or from the files.

A store is mapped into memory, not read: its pages belong to the system's page cache, one copy for all processes of the
machine, and are released when memory is needed. The mapping is private, so a write by mistake never reaches the file.
It belongs to its process: a spawned one gets the `PackedStore` and maps it again. `to_device` and `in_host_memory`
copy the packed images to the GPU or into this process's RAM. So may JPEGs lie on the GPU, but all decoders, nvJPEG too,
read them from host memory: those of a few batches come back together, some 20 kB each.
"""

import errno
import mmap
import sys
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.errors import UserError
from yolofast.image_index import ImageIndex
from yolofast.pixels import Image, ImageSource, PackedImages
from yolofast.precision import usable_device
from yolofast.store.choose import KINDS, Kind, StoreChoice, choose_cache, measure_room
from yolofast.store.fitted import Fit, decoded_jpeg, read_fitted
from yolofast.store.packed_store import PackedStore, open_data, store_folder, store_name
from yolofast.store.packing import FLAVOURS, PackJob, Progress, Say
from yolofast.words import own_command

# Private pages are reserved as if all were written to, which Linux refuses for more than the machine's memory.
_UNRESERVED = 0x4000 if sys.platform == "linux" else 0
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
WORD = 8
CHUNK = 64 * 2**20
"""Bytes copied at a time: large enough for full speed, small against what is copied."""


@dataclass(frozen=True)
class MappedImages(PackedImages):
    """A store of plain pixels, mapped."""

    store: PackedStore

    def __reduce__(self) -> tuple[Callable[[PackedStore], "MappedImages"], tuple[PackedStore]]:
        return open_packed, (self.store,)


def open_packed(store: PackedStore) -> MappedImages:
    return MappedImages(torch.from_numpy(mapped(store)), store.starts, store.sizes, store)


class JpegImages:
    """A store of JPEGs: mapped, or `resident` in this process's RAM or on a GPU; every use of an image decodes it."""

    def __init__(self, store: PackedStore, resident: Tensor | None = None) -> None:
        self._store, self.sizes = store, store.sizes
        self._data = torch.from_numpy(mapped(store)) if resident is None else resident
        # Its own: on that of the training the bytes would come when all steps queued before them are done.
        self._stream: Any = torch.cuda.Stream(self._data.device) if self._data.is_cuda else None  # type: ignore[no-untyped-call]
        self.replaced: dict[int, npt.NDArray[np.uint8]] = {}
        """Images that are damaged in the file, made anew."""

    def encoded(self, images: Sequence[int]) -> list[npt.NDArray[np.uint8]]:
        """[bytes] of each JPEG, in host memory."""
        records = self._store.records[list(images)]
        ends = zip(records["start"].tolist(), (records["start"] + records["length"]).tolist(), strict=True)
        pieces = [self._data[start:end] for start, end in ends]
        if self._stream is not None:
            with torch.cuda.stream(self._stream):
                together = torch.cat(pieces)
                pinned = torch.empty(len(together), dtype=torch.uint8, pin_memory=True)
                pinned.copy_(together, non_blocking=True)
                self._stream.synchronize()
            found = np.split(pinned.numpy(), np.cumsum(records["length"])[:-1])
        else:
            found = [piece.numpy() for piece in pieces]
        return [self.replaced.get(image, jpeg) for image, jpeg in zip(images, found, strict=True)]

    def image(self, index: int) -> Image:
        image = decoded_jpeg(self.encoded([index])[0])
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
        self.sizes = self._fit.sizes(index.sizes)

    def image(self, index: int) -> Image:
        return read_fitted(self._index.path(index), self._index.sizes[index], self._fit)


@dataclass(frozen=True)
class OpenStore:
    """A store in use: what it was made from, and where its images are read."""

    job: PackJob
    store: PackedStore
    images: PackedImages | JpegImages
    is_copy: bool
    """Whether the images were copied out of the file: to the GPU, or into this process's memory."""


def mapped(store: PackedStore) -> npt.NDArray[np.uint8]:
    """[bytes] the data file."""
    with open_data(store) as file:
        if not store.nbytes:
            return np.empty(0, np.uint8)
        if _UNRESERVED:
            flags, protection = mmap.MAP_PRIVATE | _UNRESERVED, mmap.PROT_READ | mmap.PROT_WRITE
            pages = mmap.mmap(file.fileno(), store.nbytes, flags=flags, prot=protection)
        else:
            pages = mmap.mmap(file.fileno(), store.nbytes, access=mmap.ACCESS_COPY)
    return np.frombuffer(pages, np.uint8)


def read_whole(store: PackedStore, chunk: int = CHUNK) -> Tensor:
    """[bytes] the data file in memory of its own, which nothing takes away. Forked processes share it."""
    content = np.empty(store.nbytes, np.uint8)
    with open_data(store) as file:
        for start in range(0, len(content), chunk):
            piece = content[start : start + chunk].data
            while piece:  # a read may give less than asked for
                if not (count := file.readinto(piece)):  # type: ignore[attr-defined]
                    raise UserError("became shorter while it was read", where=store.data, fix="try again")
                piece = piece[count:]
    return torch.from_numpy(content)


def to_device(packed: PackedImages, device: torch.device | str, chunk: int = CHUNK) -> PackedImages:
    """The images in the memory of `device`."""
    return PackedImages(bytes_on(device, packed.data, chunk), packed.starts, packed.sizes)


def bytes_on(device: torch.device | str, source: Tensor, chunk: int = CHUNK) -> Tensor:
    """[bytes] a mapped file in the memory of `device`.

    They pass through two small pinned buffers in turn: one is filled from the file while the other is on its way. So
    host memory never holds a second copy.
    """
    device = usable_device(device)
    target = torch.empty(source.shape, dtype=torch.uint8, device=device)
    on_gpu = device.type == "cuda"
    buffers = [torch.empty(min(chunk, len(target)), dtype=torch.uint8, pin_memory=on_gpu) for _ in range(2)]
    sent: list[torch.cuda.Event | None] = [None, None]
    for turn, start in enumerate(range(0, len(target), chunk)):
        piece = source[start : start + chunk]
        buffer, event = buffers[turn % 2][: len(piece)], sent[turn % 2]
        if event is not None:
            event.synchronize()
        buffer.copy_(piece)
        target[start : start + chunk].copy_(buffer, non_blocking=on_gpu)
        if on_gpu:
            sent[turn % 2] = torch.cuda.current_stream(device).record_event()
    if on_gpu:
        torch.cuda.current_stream(device).synchronize()
    return target


def jpegs_on(device: torch.device | str, store: PackedStore) -> JpegImages:
    return JpegImages(store, bytes_on(device, torch.from_numpy(mapped(store))))


def in_host_memory(packed: PackedImages, pinned: bool) -> PackedImages:
    """A copy in this process's RAM; `pinned`, where there is a GPU, so that it can copy from there by itself.

    It ends with a whole word, so that the GPU may read words.
    """
    memory = np.zeros(-(-len(packed.data) // WORD) * WORD, np.uint8)
    target = torch.from_numpy(memory)
    target[: len(packed.data)].copy_(packed.data)
    if pinned and len(memory) and torch.cuda.is_available():
        weakref.finalize(memory, pin(memory, fix="use --cache disk"))
    return PackedImages(target, packed.starts, packed.sizes)


def pin(memory: npt.NDArray[np.uint8], *, fix: str) -> Callable[[], None]:
    """Pins memory that is there already, so that the GPU copies from it by itself; what is returned unpins it.

    Torch's own pinned memory comes in powers of two: up to twice as much.
    """
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    if code := int(runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)):
        raise UserError(f"{memory.nbytes:,} bytes of memory cannot be pinned (CUDA error {code})", fix=fix)
    return partial(runtime.cudaHostUnregister, memory.ctypes.data)


def open_images(
    index: ImageIndex,
    width: int,
    height: int,
    cache: str = "auto",
    *,
    device: torch.device | str = "cpu",
    augmented: bool = True,
    shared: bool = False,
    among: Collection[Kind] = KINDS,
    folder: Path | None = None,
    threads: int | None = None,
    say: Say,
    progress: Progress | None = None,
    opened: Callable[[OpenStore], None] = lambda store: None,
) -> tuple[ImageSource | PackedImages, StoreChoice]:
    """The images fitted to width × height, and the choice of where they are; packed now if that was not done before.

    `cache` is auto or one of `KINDS`. `PackedImages`, all bytes at once, come from gpu, ram and disk.
    `auto` chooses `among` some of these, `off` included, and takes that where no store can be written.
    `shared`: several processes of this machine read them, so ram is the mapped file, which they have in common.
    `opened` gets the store, if there is one.
    """
    device = usable_device(device)
    fit = Fit(width, height, augmented)
    pixels, jpeg = (
        PackJob(index, fit, flavour, folder or store_folder(index, store_name(index, fit, flavour)))
        for flavour in FLAVOURS
    )
    choice = choose_cache(
        cache,
        int(pixels.pixel_bytes().sum()),
        measure_room(pixels.folder, device),
        pixels_on_disk=pixels.taken_bytes(),
        jpeg_on_disk=jpeg.taken_bytes(),
        among=among,
    )
    together = "; one mapped file for all processes" if shared and choice.kind in ("ram", "jpeg-ram") else ""
    say(f"images: cache {choice.kind} ({choice.reason}{together})")
    if choice.kind == "off":
        return FileImages(index, width, height, augmented), choice
    job = jpeg if choice.kind.startswith("jpeg") else pixels
    try:
        store = job.run(threads, progress, say)
    except UserError as error:
        if cache != "auto" or not isinstance(error.__cause__, OSError) or error.__cause__.errno not in _READ_ONLY:
            raise
        choice = StoreChoice("off", f"{error.where} cannot be written: {error.__cause__.strerror}")
        say(f"images: cache {choice.kind} instead ({choice.reason})")
        return FileImages(index, width, height, augmented), choice
    images: PackedImages | JpegImages = JpegImages(store) if job is jpeg else open_packed(store)
    in_file = images
    in_ram = choice.kind in ("ram", "jpeg-ram") and not shared
    if isinstance(images, PackedImages):
        if choice.kind == "gpu":
            images = to_device(images, device)
        elif in_ram:
            images = in_host_memory(images, pinned=device.type == "cuda")
    elif choice.kind == "jpeg-gpu":
        images = jpegs_on(device, store)
    elif in_ram:
        images = JpegImages(store, read_whole(store))
    opened(OpenStore(job, store, images, is_copy=images is not in_file))
    return images, choice
