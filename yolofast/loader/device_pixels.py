"""How the pixels a batch needs get to the device, for each place they may be kept in.

- on the device: they are there;
- in pinned host memory: the device reads them itself, over the bus, with one kernel, so that the host does nothing;
- as JPEGs, where torchvision can decode on the device: their bytes are copied and decoded there;
- anywhere else (a mapped file, JPEGs, files): threads write the pixels into pinned memory, which is copied.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.image_index import starts_of
from yolofast.pixels import ImageSource, PackedImages

try:
    from yolofast.loader._gather_kernel import gather_kernel, pack_kernel
except ImportError:  # Triton is not there on every platform
    gather_kernel = pack_kernel = None

Ints = npt.NDArray[np.int64]
_WORD = 8
_BLOCK = 1024
_IMAGES_PER_TASK = 32  # enough that threads seldom wait for one another


@runtime_checkable
class EncodedImages(ImageSource, Protocol):
    """Images that are kept as JPEGs."""

    def encoded(self, index: int) -> npt.NDArray[np.uint8]:
        """The bytes of a JPEG."""


class Fetched(Protocol):
    """The pixels of some images, on their way to the device."""

    starts: Ints
    """[n] where each image's bytes will start."""

    def on_device(self) -> Tensor:
        """The bytes, as soon as the current stream gets there. Called once, on the stream that will read them."""


class DevicePixels(Protocol):
    sizes: Ints
    """[N, 2] widths and heights of all images."""
    resident: bool
    """Whether all images are on the device already, so that fetching costs nothing."""

    def fetch(self, images: Ints) -> Fetched:
        """Start bringing these images; called by the planning thread."""


class ResidentPixels:
    """All images are on the device."""

    resident = True

    def __init__(self, images: PackedImages) -> None:
        self.sizes, self._images = images.sizes, images

    def fetch(self, images: Ints) -> Fetched:
        return _Resident(self._images, images)


class _Resident:
    def __init__(self, packed: PackedImages, images: Ints) -> None:
        self.starts, self._data = packed.starts[images], packed.data

    def on_device(self) -> Tensor:
        return self._data


class PinnedPixels:
    """All images are in pinned host memory of whole words."""

    resident = False

    def __init__(self, images: PackedImages, device: torch.device) -> None:
        assert self.possible(images, device)
        self.sizes, self._images, self._device = images.sizes, images, device

    @staticmethod
    def possible(images: PackedImages, device: torch.device) -> bool:
        readable = device.type == "cuda" and images.data.is_pinned() and images.data.numel() % _WORD == 0
        return gather_kernel is not None and readable

    def fetch(self, images: Ints) -> Fetched:
        return _Gathered(self._images, images, self._device)


class _Gathered:
    def __init__(self, packed: PackedImages, images: Ints, device: torch.device) -> None:
        # Whole words are copied; an image then lies as far into its first word as it does in the source.
        start = packed.starts[images]
        end = start + packed.sizes[images].prod(axis=1) * 3
        words = -(-end // _WORD) - start // _WORD
        places = starts_of(words)
        self.starts = places[:-1] * _WORD + start % _WORD
        table = np.stack((start // _WORD, places[:-1], words), axis=1)
        self._table = torch.from_numpy(table).pin_memory()
        self._packed, self._device = packed, device
        self._total, self._longest = int(places[-1]), int(words.max(initial=1))

    def on_device(self) -> Tensor:
        source = self._packed.data.view(torch.int64)
        target = torch.empty(max(self._total, 1), dtype=torch.int64, device=self._device)
        table = self._table.to(self._device, non_blocking=True)
        gather_kernel[(-(-self._longest // _BLOCK), len(table))](source, target, table, BLOCK=_BLOCK)
        return target.view(torch.uint8)


class DecodedPixels:
    """All images are JPEGs in host memory; the device decodes them."""

    resident = False

    def __init__(self, images: EncodedImages, device: torch.device) -> None:
        assert self.possible(device)
        self.sizes, self._images, self._device = images.sizes, images, device

    @staticmethod
    def possible(device: torch.device) -> bool:
        return pack_kernel is not None and device.type == "cuda" and find_spec("torchvision") is not None

    def fetch(self, images: Ints) -> Fetched:
        return _Decoded(self._images, images, self._device)


class _Decoded:
    def __init__(self, source: EncodedImages, images: Ints, device: torch.device) -> None:
        self._pixels = source.sizes[images].prod(axis=1)
        places = starts_of(self._pixels * 3)
        self.starts, self._total = places[:-1], int(places[-1])
        self._encoded = [torch.from_numpy(source.encoded(int(image)).copy()) for image in images]
        self._device = device

    def on_device(self) -> Tensor:
        from torchvision.io import ImageReadMode, decode_jpeg

        planes = decode_jpeg(self._encoded, mode=ImageReadMode.RGB, device=self._device)
        pointers = np.array([image.data_ptr() for image in planes], dtype=np.int64)
        table = torch.from_numpy(np.stack((pointers, self.starts, self._pixels), axis=1)).to(self._device)
        target = torch.empty(max(self._total, 1), dtype=torch.uint8, device=self._device)
        pack_kernel[(-(-int(self._pixels.max(initial=1)) // _BLOCK), len(planes))](target, table, BLOCK=_BLOCK)
        return target


class StagedPixels:
    """Images come from wherever `images` takes them, through threads and a pinned buffer."""

    resident = False

    def __init__(self, images: ImageSource, device: torch.device, threads: int) -> None:
        self.sizes, self._images, self._device = images.sizes, images, device
        self._threads = ThreadPoolExecutor(max(threads, 1), thread_name_prefix="yolofast-pixels")

    def fetch(self, images: Ints) -> Fetched:
        return _Staged(self._images, self.sizes, images, self._device, self._threads)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)


class _Staged:
    def __init__(
        self, source: ImageSource, sizes: Ints, images: Ints, device: torch.device, threads: ThreadPoolExecutor
    ) -> None:
        places = starts_of(sizes[images].prod(axis=1) * 3)
        self.starts, self._device = places[:-1], device
        self._host = torch.empty(max(int(places[-1]), 1), dtype=torch.uint8, pin_memory=device.type == "cuda")
        buffer = self._host.numpy()

        def write(first: int) -> None:
            for place in range(first, min(first + _IMAGES_PER_TASK, len(images))):
                image = source.image(int(images[place]))
                buffer[places[place] : places[place + 1]] = image.reshape(-1)

        self._done: Iterator[None] = threads.map(write, range(0, len(images), _IMAGES_PER_TASK))

    def on_device(self) -> Tensor:
        for _ in self._done:  # waits, and raises what reading an image raised
            pass
        return self._host.to(self._device, non_blocking=True)


def device_pixels(images: ImageSource | PackedImages, device: torch.device | str, threads: int) -> DevicePixels:
    """The fastest way to bring these images to the device."""
    device = torch.device(device)
    if isinstance(images, PackedImages):
        if images.data.device.type == device.type:
            return ResidentPixels(images)
        if PinnedPixels.possible(images, device):
            return PinnedPixels(images, device)
    elif isinstance(images, EncodedImages) and DecodedPixels.possible(device):
        return DecodedPixels(images, device)
    return StagedPixels(images, device, threads)
