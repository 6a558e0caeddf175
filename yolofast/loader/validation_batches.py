"""Batches to evaluate on: every image once, padded and otherwise as stored, with the way back to the original image.

Threads make them, because there is little to compute and OpenCV and NumPy release the interpreter's lock. Stored images
are never resized again, so boxes map back exactly: x of the original times `gain` plus `pad` is x in the input.

Training evaluates on the same batches after every epoch, so `BatchCache` caches those that are made a second time. On
the device they take up to 3 % of the memory free there when the first is cached. Then they are on the host (pinned,
where there is a GPU), up to 10 % of what is free, divided among the processes of a machine. The shares are small: the
device's memory is for activations, and the page cache holds the same pixels already.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.augment.plan import FILL
from yolofast.augment.render_cv2 import write_image
from yolofast.errors import UserError
from yolofast.files.threads import usable_cores
from yolofast.image_index import ImageIndex, Ints, expand
from yolofast.loader.order import rect_order, rect_shapes
from yolofast.loader.pinning import pinned_copy
from yolofast.pixels import ImageSource
from yolofast.ranks import ranks_here
from yolofast.store.choose import ram_free
from yolofast.structures import Batch, InputConvention, Targets

DEVICE_SHARE = 0.03
HOST_SHARE = 0.1

_BATCHES_AHEAD = 2
Key = tuple[bytes, int, int]
"""Which images, height and width."""


class BatchCache:
    """`device` is where batches are used; None is the host."""

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device if device is not None and device.type == "cuda" else None
        self._made_once: set[Key] = set()
        self._batches: dict[Key, Batch] = {}
        self._room: dict[str, float] = {}

    def get(self, key: Key) -> Batch | None:
        return self._batches.get(key)

    def offer(self, key: Key, batch: Batch) -> Batch:
        """A batch that has been made. Use the one that is returned: it may be on the device already.

        It is copied there by the current stream, which is the one that is going to read it.
        """
        if key not in self._made_once:
            self._made_once.add(key)
            return batch
        if self._device is not None and self._takes("device", batch.images.nbytes):
            batch = self._batches[key] = replace(
                batch,
                images=batch.images.to(self._device, non_blocking=True),
                targets=batch.targets.to(self._device, non_blocking=True),
            )
        elif self._takes("host", _taken_on_host(batch)):
            self._batches[key] = batch
        return batch

    def _takes(self, place: str, size: int) -> bool:
        """Whether there is room for so many bytes, which are then taken."""
        if place not in self._room:
            on_device = place == "device"
            free = torch.cuda.mem_get_info(self._device)[0] if on_device else ram_free() / ranks_here()
            self._room[place] = free * (DEVICE_SHARE if on_device else HOST_SHARE)
        fits = size <= self._room[place]
        self._room[place] -= size if fits else 0
        return fits


def _taken_on_host(batch: Batch) -> int:
    """torch rounds pinned memory up to powers of two."""
    size = batch.images.nbytes
    return 1 << (size - 1).bit_length() if batch.images.is_pinned() else size


def validation_batches(
    index: ImageIndex,
    images: ImageSource,
    batch_size: int,
    size: int | tuple[int, int],
    stride: int,
    *,
    rect: bool = False,
    inputs: InputConvention | None = None,
    threads: int | None = None,
    pin_memory: bool = True,
    rank: int = 0,
    world: int = 1,
    keep: bool = True,
    device: torch.device | None = None,
) -> "ValidationBatches":
    """Batches of all images, which are stored to fit `size` (one side, or width and height).

    `rect` takes them in the order of their shapes and pads each batch only as far as it needs. `inputs` says what the
    network takes, by default YOLOv7's: padded on both sides, red first. YOLOX gets no rectangles.
    Of `world` processes each takes every `world`-th batch. `keep` those that are made a second time if there is room,
    on `device` first. `threads` are as many as there are cores, or fewer.
    """
    inputs = inputs or InputConvention()
    rect = rect and not inputs.whole
    if batch_size < 1:
        raise UserError(f"the batch size for validation is {batch_size}", fix="give at least 1")
    width, height = (size, size) if isinstance(size, int) else size
    batches = -(-len(index) // batch_size)
    order, shapes = np.arange(len(index)), np.tile((height, width), (batches, 1))
    if rect:
        if width != height:
            raise UserError(f"rectangular batches of {width}×{height}", fix="give one size, the long side")
        order = rect_order(index.sizes)
        shapes = rect_shapes(index.sizes[order], batch_size, width, stride)
    parts = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    _check_fit(images.sizes, parts, shapes)
    return ValidationBatches(
        index=index,
        images=images,
        parts=parts[rank::world],
        shapes=shapes[rank::world],
        top_left=inputs.top_left,
        rgb=inputs.rgb,
        threads=min(threads or usable_cores(), usable_cores()),
        pin_memory=pin_memory and torch.cuda.is_available(),
        cache=BatchCache(device) if keep else None,
    )


@dataclass(frozen=True, kw_only=True)
class ValidationBatches:
    """May be gone through any number of times; nothing may be written into its batches."""

    index: ImageIndex
    images: ImageSource
    parts: list[Ints]
    """The images of each batch."""
    shapes: Ints
    """[batches, 2] height and width."""
    top_left: bool
    rgb: bool
    threads: int
    pin_memory: bool
    cache: BatchCache | None = None
    """Parts of a whole (`dataclasses.replace`) share it."""

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Batch]:
        pool = ThreadPoolExecutor(self.threads, "yolofast-validation")
        under_way: deque[tuple[int, Batch, list[Future[None]]]] = deque()
        try:
            for number in range(len(self)):
                under_way.append((number, *self._begin(number, pool)))
                if len(under_way) > _BATCHES_AHEAD:
                    yield self._finished(*under_way.popleft())
            while under_way:
                yield self._finished(*under_way.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def _begin(self, number: int, pool: ThreadPoolExecutor) -> tuple[Batch, list[Future[None]]]:
        """The batch, and what has to be waited for until its pixels are there."""
        if self.cache is not None and (batch := self.cache.get(self._key(number))) is not None:
            return batch, []
        part = self.parts[number]
        height, width = (int(side) for side in self.shapes[number])
        pixels = torch.empty((len(part), 3, height, width), dtype=torch.uint8, pin_memory=self.pin_memory)
        corner = self._corners(part, width, height)
        work = [
            pool.submit(self._fill, pixels, part, corner, some)
            for some in np.array_split(np.arange(len(part)), min(self.threads, len(part)))
        ]
        batch = Batch(
            images=pixels,
            targets=self._targets(part, corner, width, height),
            sources=part,
            gain=self.images.sizes[part] / self.index.sizes[part],
            pad=corner.astype(np.float64),
        )
        return pinned_copy(batch) if self.pin_memory else batch, work  # its pixels are pinned already: not copied

    def _finished(self, number: int, batch: Batch, work: list[Future[None]]) -> Batch:
        for part in work:
            part.result()
        return batch if self.cache is None or not work else self.cache.offer(self._key(number), batch)

    def _key(self, number: int) -> Key:
        height, width = self.shapes[number].tolist()
        return self.parts[number].tobytes(), height, width

    def _corners(self, part: Ints, width: int, height: int) -> Ints:
        """[B, 2] where the images begin; YOLOv7 rounds half a pixel down."""
        room = np.array((width, height)) - self.images.sizes[part]
        return np.zeros_like(room) if self.top_left else np.round(room / 2 - 0.1).astype(np.int64)

    def _fill(self, pixels: Tensor, part: Ints, corner: Ints, some: Ints) -> None:
        out: npt.NDArray[np.uint8] = pixels.numpy()
        for b in some:
            image = self.images.image(int(part[b]))
            left, top = corner[b]
            bottom, right = top + image.shape[0], left + image.shape[1]
            out[b, :, :top], out[b, :, bottom:] = FILL, FILL
            out[b, :, top:bottom, :left], out[b, :, top:bottom, right:] = FILL, FILL
            write_image(image, out[b, :, top:bottom, left:right], self.rgb)

    def _targets(self, part: Ints, corner: Ints, width: int, height: int) -> Targets:
        """The boxes without crowds, as shares of the padded image."""
        index = self.index
        box = expand(index.starts[part], index.starts[part + 1])
        image = np.repeat(np.arange(len(part)), np.diff(index.starts)[part])
        real = ~index.crowd[box]
        box, image = box[real], image[real]
        stored, canvas = self.images.sizes[part[image]], np.array((width, height))
        centre = (index.boxes[box, :2] * stored + corner[image]) / canvas
        sides = index.boxes[box, 2:] * stored / canvas
        rows = np.column_stack((image, index.labels[box], centre, sides)).astype(np.float32)
        return Targets.from_rows(torch.from_numpy(rows), len(part))


def _check_fit(stored: Ints, parts: list[Ints], shapes: Ints) -> None:
    for part, (height, width) in zip(parts, shapes, strict=True):
        largest = stored[part].max(axis=0)
        if (largest > (width, height)).any():
            what = f"stored images of up to {largest[0]}×{largest[1]} pixels do not fit a batch of {width}×{height}"
            raise UserError(what, fix="store them at the size they are evaluated at")
