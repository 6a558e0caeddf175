"""How the pixels a batch needs get to the device, for each place they may be in.

- on the device: they are there;
- in pinned host memory: the device reads them itself, over the bus, with one kernel, so that the host does nothing;
- as JPEGs, where nvJPEG is asked for: the device decodes them, from host memory, as nvJPEG wants them;
- anywhere else (a mapped file, JPEGs, files): threads write the pixels into pinned memory, which is copied.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.errors import UserError
from yolofast.image_index import Ints, starts_of
from yolofast.pixels import ImageSource, PackedImages

try:
    from yolofast.loader._gather_kernel import gather_kernel, pack_kernel
except ImportError:  # Triton is not there on every platform
    gather_kernel = pack_kernel = None

_WORD = 8
_BLOCK = 1024
_IMAGES_PER_TASK = 32  # enough that threads seldom wait for one another


@runtime_checkable
class EncodedImages(ImageSource, Protocol):
    """Images that are stored as JPEGs."""

    def encoded(self, images: Sequence[int]) -> list[npt.NDArray[np.uint8]]:
        """[bytes] of each JPEG, in host memory."""


Decode = Callable[[list[Tensor]], list[Tensor]]
"""JPEGs in host memory to planes of red, green and blue on the device; a `RuntimeError` if it cannot one of them."""


@dataclass(frozen=True)
class Fetched:
    """The pixels of some images, on their way to the device."""

    starts: Ints
    """[n] where each image's bytes will start."""
    on_device: Callable[[], Tensor]
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
        return Fetched(self._images.starts[images], lambda: self._images.data)


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
        # Whole words are copied; an image then starts as far into its first word as it does in the source.
        start = self._images.starts[images]
        end = start + self.sizes[images].prod(axis=1) * 3
        words = -(-end // _WORD) - start // _WORD
        places = starts_of(words)
        host_table = torch.from_numpy(np.stack((start // _WORD, places[:-1], words), axis=1)).pin_memory()

        def on_device() -> Tensor:
            target = torch.empty(max(int(places[-1]), 1), dtype=torch.int64, device=self._device)
            table = host_table.to(self._device, non_blocking=True)
            blocks = -(-int(words.max(initial=1)) // _BLOCK)
            gather_kernel[(blocks, len(table))](self._images.data.view(torch.int64), target, table, BLOCK=_BLOCK)
            return target.view(torch.uint8)

        return Fetched(places[:-1] * _WORD + start % _WORD, on_device)


def nvjpeg(device: torch.device) -> Decode:
    """Of torchvision, which decodes a list at once: on the chip's own decoders, where it has some."""
    if find_spec("torchvision") is None:
        fix = "pip install torchvision as torch was installed, or --jpeg-decoder opencv"
        raise UserError("--jpeg-decoder nvjpeg needs torchvision, which is not installed", fix=fix)
    from torchvision.io import ImageReadMode, decode_jpeg

    return partial(decode_jpeg, mode=ImageReadMode.RGB, device=device)


class DecodedPixels:
    """All images are JPEGs; the device decodes them."""

    resident = False

    def __init__(self, images: EncodedImages, device: torch.device, decode: Decode) -> None:
        self.sizes, self._images, self._device, self._decode = images.sizes, images, device, decode

    def fetch(self, images: Ints) -> Fetched:
        pixels = self.sizes[images].prod(axis=1)
        places = starts_of(pixels * 3)
        # Copied here: to read them from a mapped file takes time.
        encoded = [torch.from_numpy(jpeg.copy()) for jpeg in self._images.encoded(images.tolist())]

        def on_device() -> Tensor:
            try:
                planes = self._decode(encoded)
            except RuntimeError:  # which does not say of which
                planes = [self._alone(*one) for one in zip(images.tolist(), encoded, strict=True)]
            planes = [self._as_expected(*one) for one in zip(images.tolist(), planes, strict=True)]
            if pack_kernel is None or self._device.type != "cuda":
                return torch.cat([image.flip(0).permute(1, 2, 0).reshape(-1) for image in planes])
            pointers = np.array([image.data_ptr() for image in planes], dtype=np.int64)
            table = torch.from_numpy(np.stack((pointers, places[:-1], pixels), axis=1)).to(self._device)
            target = torch.empty(max(int(places[-1]), 1), dtype=torch.uint8, device=self._device)
            pack_kernel[(-(-int(pixels.max(initial=1)) // _BLOCK), len(planes))](target, table, BLOCK=_BLOCK)
            return target

        return Fetched(places[:-1], on_device)

    def _alone(self, image: int, encoded: Tensor) -> Tensor:
        try:
            return self._decode([encoded])[0]
        except RuntimeError:  # of four colours, for example
            return self._by_host(image)

    def _as_expected(self, image: int, planes: Tensor) -> Tensor:
        width, height = self.sizes[image]
        return planes if planes.shape == (3, height, width) else self._by_host(image)

    def _by_host(self, image: int) -> Tensor:
        """The decoder that the store was made with, which says what is wrong with an image."""
        pixels = torch.from_numpy(self._images.image(image))
        return pixels.permute(2, 0, 1).flip(0).contiguous().to(self._device)


class StagedPixels:
    """Images come from wherever `images` takes them, through threads and a pinned buffer."""

    resident = False

    def __init__(self, images: ImageSource, device: torch.device, threads: int) -> None:
        self.sizes, self._images, self._device = images.sizes, images, device
        self._threads = ThreadPoolExecutor(max(threads, 1), thread_name_prefix="yolofast-pixels")

    def fetch(self, images: Ints) -> Fetched:
        places = starts_of(self.sizes[images].prod(axis=1) * 3)
        host = torch.empty(max(int(places[-1]), 1), dtype=torch.uint8, pin_memory=self._device.type == "cuda")
        buffer = host.numpy()

        def write(first: int) -> None:
            for place in range(first, min(first + _IMAGES_PER_TASK, len(images))):
                buffer[places[place] : places[place + 1]] = self._images.image(int(images[place])).reshape(-1)

        written = self._threads.map(write, range(0, len(images), _IMAGES_PER_TASK))

        def on_device() -> Tensor:
            for _ in written:  # waits, and raises what reading an image raised
                pass
            return host.to(self._device, non_blocking=True)

        return Fetched(places[:-1], on_device)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)


def device_pixels(
    images: ImageSource | PackedImages, device: torch.device | str, threads: int, jpeg_decoder: str = "opencv",
    say: Callable[[str], None] = print,
) -> DevicePixels:  # fmt: skip
    """The fastest way to bring these images to the device; of JPEGs that with this decoder."""
    device = torch.device(device)
    if jpeg_decoder == "nvjpeg" and not isinstance(images, EncodedImages):
        say("images: --jpeg-decoder has no effect, the pixels are not kept as JPEGs")
    if isinstance(images, PackedImages):
        if images.data.device.type == device.type:
            return ResidentPixels(images)
        if PinnedPixels.possible(images, device):
            return PinnedPixels(images, device)
    elif isinstance(images, EncodedImages) and jpeg_decoder == "nvjpeg":
        say("images: nvJPEG decodes them on the GPU; levels may be a few apart from OpenCV's")
        return DecodedPixels(images, device, nvjpeg(device))
    elif isinstance(images, EncodedImages) and find_spec("torchvision") is not None:
        say("images: OpenCV decodes them, in threads (--jpeg-decoder nvjpeg: the GPU, faster, a few levels apart)")
    return StagedPixels(images, device, threads)
